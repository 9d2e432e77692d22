// src/ops/extremum.cc — max(x, y), min(x, y), elementwise
#include "alpa/ops/ops.h"
#include "arithmetic.h"
#include "elementwise_rule.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// dy goes to x where `x_wins`, elsewhere to y.
Values share(Recorder& g, const Node& n, Value x_wins, Value dy) {
  return {ops::sum_to(where(x_wins, dy, 0), g.operand(n, 0).shape()),
          ops::sum_to(where(x_wins, 0, dy), g.operand(n, 1).shape())};
}

}  // namespace

const OpDef ops::maximum = elementwise<ElementwiseOp::max>({
    .name = "maximum",
    .rule = numeric_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return share(g, n, alpa::ge(g.operand(n, 0), g.operand(n, 1)), dys[0]);
    },
});

const OpDef ops::minimum = elementwise<ElementwiseOp::min>({
    .name = "minimum",
    .rule = numeric_rule,
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      return share(g, n, alpa::le(g.operand(n, 0), g.operand(n, 1)), dys[0]);
    },
});

Value maximum(Value x, Value y) { return ops::emit_binary(ops::maximum, x, y); }
Value maximum(Value x, double y) { return maximum(x, ops::scalar_like(x, y)); }
Value minimum(Value x, Value y) { return ops::emit_binary(ops::minimum, x, y); }
Value minimum(Value x, double y) { return minimum(x, ops::scalar_like(x, y)); }

}  // namespace alpa
