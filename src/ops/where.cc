// src/ops/where.cc — x where the condition is not 0, else y
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "arithmetic.h"
#include "elementwise_rule.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

Rule select_rule(const OpQuery& query) {
  ops::require_operands(query, 3);
  const std::span<const TensorType> types = query.operands;
  if (types[0].dtype != u8)
    fail("where: the condition is {}, not u8 ({}); make it with a comparison", to_string(types[0]),
         to_string(types));
  if (types[1].dtype != types[2].dtype)
    fail("where: the alternatives are {} and {}; cast one of them", to_string(types[1]),
         to_string(types[2]));
  return ops::elementwise_rule(query);
}

}  // namespace

const OpDef ops::where = elementwise<ElementwiseOp::where>({
    .name = "where",
    .rule = select_rule,
    .result_dtypes =
        [](const OpQuery& query) { return std::vector<DType>{query.operands[1].dtype}; },
    .linear = {0b110},
    .vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
      const Value condition = g.operand(n, 0);
      return {Value{}, sum_to(alpa::where(condition, dys[0], 0), g.operand(n, 1).shape()),
              sum_to(alpa::where(condition, 0, dys[0]), g.operand(n, 2).shape())};
    },
});

Value where(Value condition, Value x, Value y) {
  require(condition && x && y, "where: an operand is an empty Value");
  return recorder(x).emit_one(ops::where, {condition, ops::without_broadcast(x, condition),
                                           ops::without_broadcast(y, condition)});
}

Value where(Value condition, Value x, double y) {
  return where(condition, x, ops::scalar_like(x, y));
}
Value where(Value condition, double x, Value y) {
  return where(condition, ops::scalar_like(y, x), y);
}

Value where(Value condition, double x, double y, DType dtype) {
  require(static_cast<bool>(condition), "where: the condition is an empty Value");
  Builder& builder = condition;
  return where(condition, constant(builder, x, dtype), constant(builder, y, dtype));
}

}  // namespace alpa
