// src/ops/exponential.cc — e^x, ln x, tanh x, sigmoid(x) = 1 / (1 + e^-x)
#include "alpa/ops/all_ops.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "unary.h"

namespace alpa {

const OpDef ops::exp = {
    .name = "exp",
    .rule = floating_rule,
    .vjp = [](Builder& g, const Node& n, const Values& dys) -> Values { return {dys[0] * g.result(n)}; },
    .elementwise = static_cast<int>(ElementwiseOp::exp),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::exp>,
};

const OpDef ops::log = {
    .name = "log",
    .rule = floating_rule,
    .vjp = [](Builder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] / g.operand(n, 0)};
    },
    .elementwise = static_cast<int>(ElementwiseOp::log),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::log>,
};

const OpDef ops::tanh = {
    .name = "tanh",
    .rule = floating_rule,
    .vjp = [](Builder& g, const Node& n, const Values& dys) -> Values {
      return {dys[0] * (1 - alpa::square(g.result(n)))};
    },
    .elementwise = static_cast<int>(ElementwiseOp::tanh),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::tanh>,
};

const OpDef ops::sigmoid = {
    .name = "sigmoid",
    .rule = floating_rule,
    .vjp = [](Builder& g, const Node& n, const Values& dys) -> Values {
      const Value y = g.result(n);
      return {dys[0] * (y - alpa::square(y))};
    },
    .elementwise = static_cast<int>(ElementwiseOp::sigmoid),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::sigmoid>,
};

Value exp(Value x) { return ops::emit_unary(ops::exp, x); }
Value log(Value x) { return ops::emit_unary(ops::log, x); }
Value tanh(Value x) { return ops::emit_unary(ops::tanh, x); }
Value sigmoid(Value x) { return ops::emit_unary(ops::sigmoid, x); }

}  // namespace alpa
