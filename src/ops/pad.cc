// src/ops/pad.cc — elements of one value before, after and between those of x along one dimension
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

Rule pad_rule(const OpQuery& query) {
  ops::require_operands(query, 1);
  const TensorType& x = query.operands[0];
  const std::int64_t axis = ops::axis_of(query, x), extent = x.shape[axis],
                     before = query.attributes.integer("before"),
                     after = query.attributes.integer("after"),
                     interior = query.attributes.integer("interior");
  if (before < 0 || after < 0 || interior < 0)
    fail("pad: {} before, {} after and {} between the elements of {}; none may be negative", before,
         after, interior, to_string(x));
  Rule rule = ops::resized_rule(x.shape, axis, before + extent + (extent - 1) * interior + after);
  if (query.attributes.real("value") == 0) rule.linear = ops::movement_linear(query);
  return rule;
}

Values pad_vjp(Recorder& g, const Node& n, const Values& dys) {
  const std::int64_t axis = n.attributes.integer("axis"), before = n.attributes.integer("before"),
                     stride = n.attributes.integer("interior") + 1,
                     extent = g.operand(n, 0).shape()[axis];
  return {alpa::slice(dys[0], axis, before, before + (extent - 1) * stride + 1, stride)};
}

}  // namespace

const OpDef ops::pad = {
    .name = "pad",
    .rule = pad_rule,
    .vjp = pad_vjp,
    .cpu = &cpu::pad,
};

Value pad(Value x, std::int64_t axis, std::int64_t before, std::int64_t after, double value) {
  require(static_cast<bool>(x), "pad: the operand is an empty Value");
  const std::int64_t d = ops::checked_axis("pad", axis, x.type());
  if (before == 0 && after == 0) return x;
  return recorder(x).emit_one(ops::pad, {x},
                              {{"axis", d},
                               {"before", before},
                               {"after", after},
                               {"interior", std::int64_t{0}},
                               {"value", value}});
}

}  // namespace alpa
