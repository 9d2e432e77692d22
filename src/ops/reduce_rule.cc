// src/ops/reduce_rule.cc — the index rule of reductions over dimensions
#include "reduce_rule.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "simplify.h"

namespace alpa::ops {

Rule reduce_rule(const OpQuery& query, Combiner combiner) {
  require_operands(query, 1);
  if (query.operands[0].dtype == u8)
    fail("{}: x is u8, the type of conditions ({}); cast it", query.op->name,
         named_types(query.operands));
  const Shape& shape = query.operands[0].shape;
  const std::vector<std::int64_t>& axes = query.attributes.integers("axes");
  const bool keep_dims = query.attributes.integer("keep_dims") != 0;
  for (std::int64_t axis : axes)
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size()))
      fail("{}: axis {} of {}", query.op->name, axis, to_string(query.operands[0]));
  Rule rule;
  rule.reduced.resize(1);
  DimFactors operand(shape.size()), result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool reduced =
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    operand[d] = {static_cast<int>(d)};
    rule.factors.push_back({shape[d]});
    if (reduced) rule.reduced[0].push_back({static_cast<int>(d), combiner});
    if (!reduced)
      result.push_back(operand[d]);
    else if (keep_dims)
      result.emplace_back();
  }
  rule.operands.push_back(std::move(operand));
  rule.results.push_back(std::move(result));
  rule.linear = query.op->linear;
  rule.flops_per_point = 1;
  return rule;
}

Value emit_reduce(const OpDef& op, Value x, const std::vector<std::int64_t>& axes, bool keep_dims) {
  require(static_cast<bool>(x), "{}: the operand is an empty Value", op.name);
  if (x.rank() == 0 && axes.empty()) return x;
  return recorder(x).emit_one(
      op, {x}, {{"axes", sorted_axes(op.name, axes, x)}, {"keep_dims", std::int64_t{keep_dims}}});
}

Value with_kept_dims(Recorder& g, const Node& reduction, Value y) {
  Shape shape = g.operand(reduction, 0).shape();
  for (std::int64_t axis : reduction.attributes.integers("axes")) shape[axis] = 1;
  return alpa::reshape(y, shape);
}

}  // namespace alpa::ops
