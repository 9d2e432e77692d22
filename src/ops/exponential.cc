// src/ops/exponential.cc — e^x, ln x, tanh x, sigmoid(x) = 1 / (1 + e^-x), erf x
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "unary.h"

namespace alpa {

const OpDef ops::exp = elementwise<ElementwiseOp::exp>({
    .name = "exp",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * g.result(n)};
    },
});

const OpDef ops::log = elementwise<ElementwiseOp::log>({
    .name = "log",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] / g.operand(n, 0)};
    },
});

const OpDef ops::tanh = elementwise<ElementwiseOp::tanh>({
    .name = "tanh",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * (1 - alpa::square(g.result(n)))};
    },
});

const OpDef ops::sigmoid = elementwise<ElementwiseOp::sigmoid>({
    .name = "sigmoid",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value y = g.result(n);
      return {dys[0] * (y - alpa::square(y))};
    },
});

/// erf'(x) = 2/√π e^-x²
const OpDef ops::erf = elementwise<ElementwiseOp::erf>({
    .name = "erf",
    .rule = floating_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * (alpa::exp(-alpa::square(g.operand(n, 0))) * 1.1283791670955126)};
    },
});

Value exp(Value x) { return ops::emit_unary(ops::exp, x); }
Value log(Value x) { return ops::emit_unary(ops::log, x); }
Value tanh(Value x) { return ops::emit_unary(ops::tanh, x); }
Value sigmoid(Value x) { return ops::emit_unary(ops::sigmoid, x); }
Value erf(Value x) { return ops::emit_unary(ops::erf, x); }

}  // namespace alpa
