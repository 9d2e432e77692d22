// src/ops/trigonometric.cc — sin x and cos x, each the other's derivative up to its sign
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "unary.h"

namespace alpa {

const OpDef ops::sin = elementwise<ElementwiseOp::sin>({
    .name = "sin",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * alpa::cos(g.operand(n, 0))};
    },
});

const OpDef ops::cos = elementwise<ElementwiseOp::cos>({
    .name = "cos",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {-(dys[0] * alpa::sin(g.operand(n, 0)))};
    },
});

Value sin(Value x) { return ops::emit_unary(ops::sin, x); }
Value cos(Value x) { return ops::emit_unary(ops::cos, x); }

}  // namespace alpa
