// src/ops/sign.cc — |x|, -1, 0 or 1 by the sign of x, and the largest whole number up to x
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "unary.h"

namespace alpa {

const OpDef ops::abs = elementwise<ElementwiseOp::abs>({
    .name = "abs",
    .rule = numeric_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * alpa::sign(g.operand(n, 0))};
    },
});

const OpDef ops::sign = elementwise<ElementwiseOp::sign>({
    .name = "sign",
    .rule = numeric_rule,
    .vjp = [](Recorder&, const Node&, const Values&) -> Values { return {Value{}}; },
});

const OpDef ops::floor = elementwise<ElementwiseOp::floor>({
    .name = "floor",
    .rule = floating_rule,
    .vjp = [](Recorder&, const Node&, const Values&) -> Values { return {Value{}}; },
});

Value abs(Value x) { return ops::emit_unary(ops::abs, x); }
Value sign(Value x) { return ops::emit_unary(ops::sign, x); }
Value floor(Value x) { return ops::emit_unary(ops::floor, x); }

}  // namespace alpa
