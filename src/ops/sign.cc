// src/ops/sign.cc — |x|, and -1, 0 or 1 by the sign of x
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

Value abs(Value x) { return ops::emit_unary(ops::abs, x); }
Value sign(Value x) { return ops::emit_unary(ops::sign, x); }

}  // namespace alpa
