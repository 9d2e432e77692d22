// src/ops/extremum.cc — max(x, y), min(x, y), elementwise
#include "alpa/ops/all_ops.h"
#include "alpa/ops/ops.h"
#include "arithmetic.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"

namespace alpa {
namespace {

/// dy goes to x where `x_wins`, elsewhere to y.
Values share(Builder& g, const Node& n, Value x_wins, Value dy) {
  return {ops::sum_to(select(x_wins, dy, 0), g.operand(n, 0).shape()),
          ops::sum_to(select(x_wins, 0, dy), g.operand(n, 1).shape())};
}

}  // namespace

const OpDef ops::maximum = {
    .name = "maximum",
    .rule = numeric_rule,
    .vjp = [](Builder& g, const Node& n, const Values& dys) -> Values {
      return share(g, n, alpa::ge(g.operand(n, 0), g.operand(n, 1)), dys[0]);
    },
    .elementwise = static_cast<int>(ElementwiseOp::max),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::max>,
};

const OpDef ops::minimum = {
    .name = "minimum",
    .rule = numeric_rule,
    .vjp = [](Builder& g, const Node& n, const Values& dys) -> Values {
      return share(g, n, alpa::le(g.operand(n, 0), g.operand(n, 1)), dys[0]);
    },
    .elementwise = static_cast<int>(ElementwiseOp::min),
    .in_place = true,
    .cpu = &cpu::elementwise<ElementwiseOp::min>,
};

Value maximum(Value x, Value y) { return ops::emit_binary(ops::maximum, x, y); }
Value maximum(Value x, double y) { return maximum(x, ops::scalar_like(x, y)); }
Value minimum(Value x, Value y) { return ops::emit_binary(ops::minimum, x, y); }
Value minimum(Value x, double y) { return minimum(x, ops::scalar_like(x, y)); }

}  // namespace alpa
