// src/ops/activation.cc — relu(x) = max(x, 0), gelu(x) = x/2 (1 + tanh(√(2/π) (x + 0.044715
// x³))), and their derivatives
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "unary.h"

namespace alpa {

const OpDef ops::relu = elementwise<ElementwiseOp::relu>({
    .name = "relu",
    .rule = numeric_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * emit_unary(step, g.result(n))};
    },
});

const OpDef ops::step = elementwise<ElementwiseOp::step>({
    .name = "step",
    .rule = numeric_rule,
    .vjp = [](Recorder&, const Node&, const Values&) -> Values { return {Value{}}; },
});

const OpDef ops::gelu = elementwise<ElementwiseOp::gelu>({
    .name = "gelu",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * emit_unary(gelu_grad, g.operand(n, 0))};
    },
});

const OpDef ops::gelu_grad = elementwise<ElementwiseOp::gelu_grad>({
    .name = "gelu_grad",
    .rule = floating_rule,
});

Value relu(Value x) { return ops::emit_unary(ops::relu, x); }
Value gelu(Value x) { return ops::emit_unary(ops::gelu, x); }
Value exact_gelu(Value x) { return x * 0.5 * (erf(x * 0.70710678118654752) + 1); }
Value silu(Value x) { return x * sigmoid(x); }

}  // namespace alpa
