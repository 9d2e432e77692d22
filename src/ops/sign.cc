// src/ops/sign.cc — |x|, and -1, 0 or 1 by the sign of x
#include "alpa/ops/all_ops.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "unary.h"

namespace alpa {

const OpDef ops::abs = {
    .name = "abs",
    .rule = numeric_rule,
    .vjp = [](Builder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * alpa::sign(g.operand(n, 0))};
    },
    .elementwise = static_cast<int>(ElementwiseOp::abs),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::abs>,
};

const OpDef ops::sign = {
    .name = "sign",
    .rule = numeric_rule,
    .vjp = [](Builder&, const Node&, const Values&) -> Values { return {Value{}}; },
    .elementwise = static_cast<int>(ElementwiseOp::sign),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::sign>,
};

Value abs(Value x) { return ops::emit_unary(ops::abs, x); }
Value sign(Value x) { return ops::emit_unary(ops::sign, x); }

}  // namespace alpa
