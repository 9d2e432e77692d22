// src/ops/unary.cc — y = f(x), element by element, and f's derivative
#include "unary.h"

#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

using Op = ElementwiseOp;
using ops::floating_rule, ops::numeric_rule;

/// The formula `op`. `Gradient`: that of x, from dy, x and y. One that is empty is zero.
template <Op op, class Gradient>
OpDef unary(Rule (*rule)(const OpQuery&), Gradient) {
  return ops::elementwise<op>({
      .name = alpa::info(op).name,
      .rule = rule,
      .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
        return {Gradient{}(dys[0], g.operand(n, 0), g.result(n))};
      },
  });
}

constexpr auto kZero = [](Value, Value, Value) { return Value{}; };

}  // namespace

const OpDef ops::relu = unary<Op::relu>(
    numeric_rule, [](Value dy, Value, Value y) { return dy * emit_unary(step, y); });
const OpDef ops::step = unary<Op::step>(numeric_rule, kZero);
const OpDef ops::gelu = unary<Op::gelu>(
    floating_rule, [](Value dy, Value x, Value) { return dy * emit_unary(gelu_grad, x); });
const OpDef ops::gelu_grad =
    elementwise<Op::gelu_grad>({.name = "gelu_grad", .rule = floating_rule});

const OpDef ops::exp =
    unary<Op::exp>(floating_rule, [](Value dy, Value, Value y) { return dy * y; });
const OpDef ops::log =
    unary<Op::log>(floating_rule, [](Value dy, Value x, Value) { return dy / x; });
const OpDef ops::tanh = unary<Op::tanh>(
    floating_rule, [](Value dy, Value, Value y) { return dy * (1 - alpa::square(y)); });
const OpDef ops::sigmoid = unary<Op::sigmoid>(
    floating_rule, [](Value dy, Value, Value y) { return dy * (y - alpa::square(y)); });
/// erf'(x) = 2/√π e^-x²
const OpDef ops::erf = unary<Op::erf>(floating_rule, [](Value dy, Value x, Value) {
  return dy * (alpa::exp(-alpa::square(x)) * 1.1283791670955126);
});

const OpDef ops::sin =
    unary<Op::sin>(floating_rule, [](Value dy, Value x, Value) { return dy * alpa::cos(x); });
const OpDef ops::cos =
    unary<Op::cos>(floating_rule, [](Value dy, Value x, Value) { return -(dy * alpa::sin(x)); });

const OpDef ops::square =
    unary<Op::square>(numeric_rule, [](Value dy, Value x, Value) { return dy * (x * 2); });
const OpDef ops::sqrt =
    unary<Op::sqrt>(floating_rule, [](Value dy, Value, Value y) { return dy * 0.5 / y; });
const OpDef ops::rsqrt = unary<Op::rsqrt>(
    floating_rule, [](Value dy, Value, Value y) { return dy * (alpa::square(y) * y * -0.5); });

const OpDef ops::abs =
    unary<Op::abs>(numeric_rule, [](Value dy, Value x, Value) { return dy * alpa::sign(x); });
const OpDef ops::sign = unary<Op::sign>(numeric_rule, kZero);
const OpDef ops::floor = unary<Op::floor>(floating_rule, kZero);

Value relu(Value x) { return ops::emit_unary(ops::relu, x); }
Value gelu(Value x) { return ops::emit_unary(ops::gelu, x); }
Value exact_gelu(Value x) { return x * 0.5 * (erf(x * 0.70710678118654752) + 1); }
Value silu(Value x) { return x * sigmoid(x); }
Value exp(Value x) { return ops::emit_unary(ops::exp, x); }
Value log(Value x) { return ops::emit_unary(ops::log, x); }
Value tanh(Value x) { return ops::emit_unary(ops::tanh, x); }
Value sigmoid(Value x) { return ops::emit_unary(ops::sigmoid, x); }
Value erf(Value x) { return ops::emit_unary(ops::erf, x); }
Value sin(Value x) { return ops::emit_unary(ops::sin, x); }
Value cos(Value x) { return ops::emit_unary(ops::cos, x); }
Value square(Value x) { return ops::emit_unary(ops::square, x); }
Value sqrt(Value x) { return ops::emit_unary(ops::sqrt, x); }
Value rsqrt(Value x) { return ops::emit_unary(ops::rsqrt, x); }
Value abs(Value x) { return ops::emit_unary(ops::abs, x); }
Value sign(Value x) { return ops::emit_unary(ops::sign, x); }
Value floor(Value x) { return ops::emit_unary(ops::floor, x); }

}  // namespace alpa
