// src/ops/concatenate.cc — tensors one behind the other along one dimension
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

constexpr std::size_t kMaxLinear = 32;  ///< operands that a linear set can name

void require_alike(const OpQuery& query, std::int64_t axis) {
  const TensorType& first = query.operands[0];
  for (std::size_t i = 1; i < query.operands.size(); ++i) {
    const TensorType& part = query.operands[i];
    Shape shape = part.shape;
    if (shape.size() == first.shape.size()) shape[axis] = first.shape[axis];
    if (part.dtype != first.dtype || shape != first.shape)
      fail("concatenate: part {} is {}, but part 0 is {}; only dimension {} may differ", i,
           to_string(part), to_string(first), axis);
  }
}

Rule concatenate_rule(const OpQuery& query) {
  require(!query.operands.empty(), "concatenate: needs at least one part");
  const TensorType& first = query.operands[0];
  const std::int64_t axis = ops::axis_of(query, first);
  const std::size_t rank = first.shape.size(), parts = query.operands.size();
  require_alike(query, axis);
  Shape shape = first.shape;
  shape[axis] = 0;
  for (const TensorType& part : query.operands) shape[axis] += part.shape[axis];
  Rule rule = ops::dims_rule(shape, axis, true);
  for (const TensorType& part : query.operands)
    rule.operands.push_back(
        ops::dims_with(rank, axis, ops::add_factor(rule, part.shape[axis], true)));
  rule.results = {ops::dims_with(rank, axis, static_cast<int>(axis))};
  if (first.dtype != u8 && parts <= kMaxLinear)
    rule.linear = {static_cast<std::uint32_t>((std::uint64_t{1} << parts) - 1)};
  return rule;
}

Values concatenate_vjp(Recorder& g, const Node& n, const Values& dys) {
  const std::int64_t axis = n.attributes.integer("axis");
  Values slices;
  for (std::int64_t begin = 0; int id : n.operands) {
    const std::int64_t extent = g.value(id).shape()[axis];
    slices.push_back(alpa::slice(dys[0], axis, begin, begin + extent));
    begin += extent;
  }
  return slices;
}

}  // namespace

const OpDef ops::concatenate = {
    .name = "concatenate",
    .rule = concatenate_rule,
    .vjp = concatenate_vjp,
    .cpu = &cpu::concatenate,
};

Value concatenate(const Values& parts, std::int64_t axis) {
  require(!parts.empty(), "concatenate: needs at least one part");
  for (const Value& part : parts) require(static_cast<bool>(part), "concatenate: a part is empty");
  const std::int64_t d = ops::checked_axis("concatenate", axis, parts[0].type());
  if (parts.size() == 1) return parts[0];
  return recorder(parts[0]).emit_one(ops::concatenate, parts, {{"axis", d}});
}

}  // namespace alpa
