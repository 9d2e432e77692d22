// src/ops/transpose.cc — dimension i of y is dimension permutation[i] of x
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "elementwise_rule.h"
#include "kernels/cpu/kernels.h"
#include "simplify.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Factors in the order of the result.
Rule transpose_rule(const OpQuery& query) {
  ops::require_operands(query, 1);
  const Shape& shape = query.operands[0].shape;
  const std::vector<std::int64_t>& permutation = query.attributes.integers("permutation");
  std::vector<std::int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != ops::first_dims(static_cast<std::int64_t>(shape.size())))
    fail("transpose: {} is not a permutation of the dimensions of {}", to_string(permutation),
         to_string(query.operands[0]));
  Rule rule;
  DimFactors operand(shape.size()), result;
  for (std::int64_t dim : permutation) {
    operand[dim] = {static_cast<int>(rule.factors.size())};
    result.push_back(operand[dim]);
    rule.factors.push_back({shape[dim]});
  }
  rule.operands.push_back(std::move(operand));
  rule.results.push_back(std::move(result));
  rule.linear = ops::movement_linear(query);
  return rule;
}

}  // namespace

const OpDef ops::transpose = {
    .name = "transpose",
    .rule = transpose_rule,
    .vjp = [](Recorder&, const Node& n, const Values& dys) -> Values {
      const std::vector<std::int64_t>& permutation = n.attributes.integers("permutation");
      Axes inverse(permutation.size());
      for (std::size_t i = 0; i < permutation.size(); ++i)
        inverse[permutation[i]] = static_cast<std::int64_t>(i);
      return {alpa::transpose(dys[0], inverse)};
    },
    .cpu = &cpu::transpose,
};

Value transpose(Value x, const Axes& permutation) {
  require(static_cast<bool>(x), "transpose: the operand is an empty Value");
  Axes axes = permutation.empty() ? ops::first_dims(x.rank()) : permutation;
  if (permutation.empty()) std::reverse(axes.begin(), axes.end());
  for (std::int64_t& axis : axes) axis = ops::checked_axis("transpose", axis, x.type());
  if (axes == ops::first_dims(x.rank())) return x;
  return recorder(x).emit_one(ops::transpose, {x}, {{"permutation", axes}});
}

}  // namespace alpa
