// src/ops/extremum.cc — max(x, y), min(x, y), elementwise
#include "alpa/ops/ops.h"
#include "arithmetic.h"
#include "elementwise_rule.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// dy goes to x where `XWins`, elsewhere to y.
template <ElementwiseOp op, class XWins>
OpDef extremum(std::string_view name, XWins) {
  return ops::elementwise<op>({
      .name = name,
      .rule = ops::numeric_rule,
      .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
        const Value x = g.operand(n, 0), y = g.operand(n, 1), x_wins = XWins{}(x, y);
        return {ops::sum_to(where(x_wins, dys[0], 0), x.shape()),
                ops::sum_to(where(x_wins, 0, dys[0]), y.shape())};
      },
  });
}

}  // namespace

const OpDef ops::maximum =
    extremum<ElementwiseOp::max>("maximum", [](Value x, Value y) { return alpa::ge(x, y); });
const OpDef ops::minimum =
    extremum<ElementwiseOp::min>("minimum", [](Value x, Value y) { return alpa::le(x, y); });

Value maximum(Value x, Value y) { return ops::emit_binary(ops::maximum, x, y); }
Value maximum(Value x, double y) { return maximum(x, ops::scalar_like(x, y)); }
Value minimum(Value x, Value y) { return ops::emit_binary(ops::minimum, x, y); }
Value minimum(Value x, double y) { return minimum(x, ops::scalar_like(x, y)); }

}  // namespace alpa
