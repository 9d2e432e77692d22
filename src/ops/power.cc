// src/ops/power.cc — x^y
#include "alpa/ops/ops.h"
#include "arithmetic.h"
#include "elementwise_rule.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

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

Value pow(Value x, Value y) {
  if (x && y && y.rank() == 0 && y.dtype() == x.dtype() && is_floating(x.dtype())) {
    const double exponent = ops::constant_of(y).value_or(0);
    if (exponent == 1) return x;
    if (exponent == 2) return square(x);
  }
  return ops::emit_binary(ops::pow, x, y);
}

Value pow(Value x, double y) { return pow(x, ops::scalar_like(x, y)); }

}  // namespace alpa
