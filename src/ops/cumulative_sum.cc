// src/ops/cumulative_sum.cc — y_i = x_0 + … + x_i along one dimension
#include "along_axis.h"
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

Rule cumulative_sum_rule(const OpQuery& query) {
  ops::require_operands(query, 1);
  const TensorType& x = query.operands[0];
  if (x.dtype == u8)
    fail("cumulative_sum: x is u8, the type of conditions ({}); cast it", to_string(x));
  const std::int64_t axis = ops::axis_of(query, x);
  query.attributes.integer("exclusive"), query.attributes.integer("reverse");
  Rule rule = ops::dims_rule(x.shape, axis, true);
  rule.operands = {ops::dims_with(x.shape.size(), axis, static_cast<int>(axis))};
  rule.results = rule.operands;
  rule.linear = query.op->linear;
  rule.flops_per_point = query.op->flops_per_point;
  return rule;
}

}  // namespace

const OpDef ops::cumulative_sum = {
    .name = "cumulative_sum",
    .rule = cumulative_sum_rule,
    .flops_per_point = 1,
    .linear = {0b1},
    .vjp = [](Recorder&, const Node& n, const Values& dys) -> Values {
      return {alpa::cumulative_sum(dys[0], n.attributes.integer("axis"),
                                   n.attributes.integer("exclusive") != 0,
                                   n.attributes.integer("reverse") == 0)};
    },
    .cpu = &cpu::cumulative_sum,
};

Value cumulative_sum(Value x, std::int64_t axis, bool exclusive, bool reverse) {
  require(static_cast<bool>(x), "cumulative_sum: the operand is an empty Value");
  return recorder(x).emit_one(ops::cumulative_sum, {x},
                              {{"axis", ops::checked_axis("cumulative_sum", axis, x.type())},
                               {"exclusive", std::int64_t{exclusive}},
                               {"reverse", std::int64_t{reverse}}});
}

}  // namespace alpa
