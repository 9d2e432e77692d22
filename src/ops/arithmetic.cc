// src/ops/arithmetic.cc — x + y, x - y, x * y, x / y, -x with NumPy broadcasting
#include "arithmetic.h"

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "simplify.h"
#include "src/ops/all_ops.h"

namespace alpa {

const OpDef ops::add = elementwise<ElementwiseOp::add>({
    .name = "add",
    .rule = numeric_rule,
    .linear = {0b11},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {sum_to(dys[0], g.operand(n, 0).shape()), sum_to(dys[0], g.operand(n, 1).shape())};
    },
});

const OpDef ops::sub = elementwise<ElementwiseOp::sub>({
    .name = "sub",
    .rule = numeric_rule,
    .linear = {0b11},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {sum_to(dys[0], g.operand(n, 0).shape()), -sum_to(dys[0], g.operand(n, 1).shape())};
    },
});

const OpDef ops::mul = elementwise<ElementwiseOp::mul>({
    .name = "mul",
    .rule = numeric_rule,
    .linear = {0b01, 0b10},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0), y = g.operand(n, 1);
      return {sum_to(dys[0] * y, x.shape()), sum_to(dys[0] * x, y.shape())};
    },
});

const OpDef ops::div = elementwise<ElementwiseOp::div>({
    .name = "div",
    .rule = numeric_rule,
    .linear = {0b01},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0), y = g.operand(n, 1), dx = dys[0] / y;
      return {sum_to(dx, x.shape()), sum_to(-(dx * g.result(n)), y.shape())};
    },
});

const OpDef ops::neg = elementwise<ElementwiseOp::neg>({
    .name = "neg",
    .rule = numeric_rule,
    .linear = {0b1},
    .vjp = [](Recorder&, const Node&, const Values& dys) -> Values { return {-dys[0]}; },
});

namespace ops {

Value emit_binary(const OpDef& op, Value x, Value y) {
  require(x && y, "{}: an operand is an empty Value", op.name);
  const Value slim_x = without_broadcast(x, y);
  return recorder(x).emit_one(op, {slim_x, slim_x.id == x.id ? without_broadcast(y, x) : y});
}

Value scalar_like(Value like, double number) {
  require(static_cast<bool>(like), "an operand is an empty Value");
  return alpa::constant(*like.builder, number, like.dtype());
}

namespace {

/// Values of both, if they are constants of one floating type that broadcast together.
std::optional<std::pair<double, double>> constants_of(Value x, Value y) {
  if (!x || !y || x.builder != y.builder || x.dtype() != y.dtype() || !is_floating(x.dtype()) ||
      !broadcast_shape(x.shape(), y.shape()))
    return std::nullopt;
  const std::optional<double> a = constant_of(x), b = constant_of(y);
  return a && b ? std::optional(std::pair(*a, *b)) : std::nullopt;
}

Value folded(Value x, Value y, double value) {
  return alpa::constant(*x.builder, value, x.dtype(), *broadcast_shape(x.shape(), y.shape()));
}

/// True if `y` is the constant `number` and leaves the type of `x` as it is.
bool is_neutral(Value x, Value y, double number) {
  return x && y && x.builder == y.builder && x.dtype() == y.dtype() && constant_of(y) == number &&
         broadcast_shape(x.shape(), y.shape()) == x.shape();
}

/// (u * a) * b = u * (a b) for scalar constants a and b.
std::optional<Value> scaled_again(Value x, Value y) {
  const Node* product = producer_if(x, mul);
  const std::optional<double> b = constant_of(y);
  if (!product || !b || (y.rank() > 0 && y.shape() != x.shape()) || y.dtype() != x.dtype())
    return std::nullopt;
  const Value u = recorder(x).operand(*product, 0), scale = recorder(x).operand(*product, 1);
  const std::optional<double> a = constant_of(scale);
  if (!a || scale.rank() > 0 || !is_floating(x.dtype())) return std::nullopt;
  return u * scalar_like(u, *a * *b);
}

}  // namespace
}  // namespace ops

Value operator+(Value x, Value y) {
  if (const auto c = ops::constants_of(x, y)) return ops::folded(x, y, c->first + c->second);
  if (ops::is_neutral(x, y, 0)) return x;
  if (ops::is_neutral(y, x, 0)) return y;
  return ops::emit_binary(ops::add, x, y);
}

Value operator-(Value x, Value y) {
  if (const auto c = ops::constants_of(x, y)) return ops::folded(x, y, c->first - c->second);
  if (ops::is_neutral(x, y, 0)) return x;
  return ops::emit_binary(ops::sub, x, y);
}

Value operator*(Value x, Value y) {
  if (const auto c = ops::constants_of(x, y)) return ops::folded(x, y, c->first * c->second);
  if (ops::is_neutral(x, y, 1)) return x;
  if (ops::is_neutral(y, x, 1)) return y;
  if (x && y && x.builder == y.builder) {
    if (ops::constant_of(x)) std::swap(x, y);
    if (const auto product = ops::scaled_again(x, y)) return *product;
  }
  return ops::emit_binary(ops::mul, x, y);
}

Value operator/(Value x, Value y) {
  if (const auto c = ops::constants_of(x, y)) return ops::folded(x, y, c->first / c->second);
  if (ops::is_neutral(x, y, 1)) return x;
  return ops::emit_binary(ops::div, x, y);
}

Value operator-(Value x) {
  require(static_cast<bool>(x), "neg: the operand is an empty Value");
  if (const auto c = ops::constant_of(x)) return constant(*x.builder, -*c, x.dtype(), x.shape());
  if (const Node* negated = ops::producer_if(x, ops::neg)) return recorder(x).operand(*negated, 0);
  return recorder(x).emit_one(ops::neg, {x});
}

Value operator+(Value x, double y) { return x + ops::scalar_like(x, y); }
Value operator-(Value x, double y) { return x - ops::scalar_like(x, y); }
Value operator*(Value x, double y) { return x * ops::scalar_like(x, y); }
Value operator/(Value x, double y) { return x / ops::scalar_like(x, y); }
Value operator+(double x, Value y) { return ops::scalar_like(y, x) + y; }
Value operator-(double x, Value y) { return ops::scalar_like(y, x) - y; }
Value operator*(double x, Value y) { return ops::scalar_like(y, x) * y; }
Value operator/(double x, Value y) { return ops::scalar_like(y, x) / y; }

}  // namespace alpa
