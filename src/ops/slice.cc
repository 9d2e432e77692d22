// src/ops/slice.cc — elements begin, begin + stride, … before end along one dimension
#include <algorithm>

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

std::int64_t count(std::int64_t begin, std::int64_t end, std::int64_t stride) {
  return (end - begin + stride - 1) / stride;
}

Rule slice_rule(const OpQuery& query) {
  ops::require_operands(query, 1);
  const TensorType& x = query.operands[0];
  const std::int64_t axis = ops::axis_of(query, x), extent = x.shape[axis],
                     begin = query.attributes.integer("begin"),
                     end = query.attributes.integer("end"),
                     stride = query.attributes.integer("stride");
  if (begin < 0 || begin >= end || end > extent || stride < 1)
    fail("slice: elements {} to {} by {} of dimension {} of {}", begin, end, stride, axis,
         to_string(x));
  Rule rule = ops::resized_rule(x.shape, axis, count(begin, end, stride));
  rule.reads = {ops::factors_of(rule.results[0])};
  rule.linear = ops::movement_linear(query);
  return rule;
}

Values slice_vjp(Recorder& g, const Node& n, const Values& dys) {
  const std::int64_t axis = n.attributes.integer("axis"), begin = n.attributes.integer("begin"),
                     stride = n.attributes.integer("stride"), kept = dys[0].shape()[axis],
                     behind = begin + (kept - 1) * stride + 1,
                     extent = g.operand(n, 0).shape()[axis];
  return {g.emit_one(ops::pad, {dys[0]},
                     {{"axis", axis},
                      {"before", begin},
                      {"after", extent - behind},
                      {"interior", stride - 1},
                      {"value", 0.0}})};
}

}  // namespace

const OpDef ops::slice = {
    .name = "slice",
    .rule = slice_rule,
    .vjp = slice_vjp,
    .cpu = &cpu::slice,
};

Value slice(Value x, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t stride) {
  require(static_cast<bool>(x), "slice: the operand is an empty Value");
  const std::int64_t d = ops::checked_axis("slice", axis, x.type()), extent = x.shape()[d];
  const auto from_start = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + extent : i, 0, extent);
  };
  const std::int64_t first = from_start(begin), last = from_start(end);
  require(stride >= 1, "slice: the stride must be at least 1, not {}", stride);
  require(first < last, "slice: none of the {} elements of dimension {} of {} is between {} and {}",
          extent, d, to_string(x.type()), begin, end);
  if (count(first, last, stride) == extent) return x;
  return recorder(x).emit_one(ops::slice, {x},
                              {{"axis", d}, {"begin", first}, {"end", last}, {"stride", stride}});
}

Values split(Value x, std::int64_t parts, std::int64_t axis) {
  require(static_cast<bool>(x), "split: the operand is an empty Value");
  const std::int64_t d = ops::checked_axis("split", axis, x.type()), extent = x.shape()[d];
  require(parts >= 1 && extent % parts == 0,
          "split: dimension {} of {} is not a multiple of {} parts; use slice for unequal ones", d,
          to_string(x.type()), parts);
  Values slices;
  for (std::int64_t i = 0; i < parts; ++i)
    slices.push_back(slice(x, d, i * (extent / parts), (i + 1) * (extent / parts)));
  return slices;
}

}  // namespace alpa
