// src/ops/power.cc — x^y, x², √x, 1/√x
#include "alpa/ops/ops.h"
#include "arithmetic.h"
#include "elementwise_rule.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "unary.h"

namespace alpa {

const OpDef ops::pow = elementwise<ElementwiseOp::pow>({
    .name = "pow",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value x = g.operand(n, 0), y = g.operand(n, 1);
      const Value dx = sum_to(dys[0] * (y * alpa::pow(x, y - 1)), x.shape());
      return {dx, sum_to(dys[0] * (g.result(n) * alpa::log(x)), y.shape())};
    },
});

const OpDef ops::square = elementwise<ElementwiseOp::square>({
    .name = "square",
    .rule = numeric_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * (g.operand(n, 0) * 2)};
    },
});

const OpDef ops::sqrt = elementwise<ElementwiseOp::sqrt>({
    .name = "sqrt",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * 0.5 / g.result(n)};
    },
});

const OpDef ops::rsqrt = elementwise<ElementwiseOp::rsqrt>({
    .name = "rsqrt",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value y = g.result(n);
      return {dys[0] * (alpa::square(y) * y * -0.5)};
    },
});

Value pow(Value x, Value y) {
  if (x && y && y.rank() == 0 && y.dtype() == x.dtype() && is_floating(x.dtype())) {
    const double exponent = ops::constant_of(y).value_or(0);
    if (exponent == 1) return x;
    if (exponent == 2) return square(x);
  }
  return ops::emit_binary(ops::pow, x, y);
}

Value pow(Value x, double y) { return pow(x, ops::scalar_like(x, y)); }
Value square(Value x) { return ops::emit_unary(ops::square, x); }
Value sqrt(Value x) { return ops::emit_unary(ops::sqrt, x); }
Value rsqrt(Value x) { return ops::emit_unary(ops::rsqrt, x); }

}  // namespace alpa
