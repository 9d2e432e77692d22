// src/ops/along_axis.cc — rules of operators along one dimension
#include "along_axis.h"

#include "alpa/base/error.h"

namespace alpa::ops {

std::int64_t axis_of(const OpQuery& query, const TensorType& type) {
  const std::int64_t axis = query.attributes.integer("axis");
  if (axis < 0 || axis >= type.rank())
    fail("{}: axis {} of {}", query.op->name, axis, to_string(type));
  return axis;
}

Rule dims_rule(const Shape& shape, std::int64_t axis, bool whole) {
  Rule rule;
  for (std::size_t d = 0; d < shape.size(); ++d)
    rule.factors.push_back({shape[d], whole && static_cast<std::int64_t>(d) == axis});
  return rule;
}

DimFactors dims_with(std::size_t rank, std::int64_t axis, int factor) {
  DimFactors dims(rank);
  for (std::size_t d = 0; d < rank; ++d)
    dims[d] = {static_cast<std::int64_t>(d) == axis ? factor : static_cast<int>(d)};
  return dims;
}

int add_factor(Rule& rule, std::int64_t size, bool whole) {
  rule.factors.push_back({size, whole});
  return static_cast<int>(rule.factors.size()) - 1;
}

Rule resized_rule(const Shape& shape, std::int64_t axis, std::int64_t size) {
  Rule rule = dims_rule(shape, axis, true);
  const int resized = add_factor(rule, size, true);
  rule.operands = {dims_with(shape.size(), axis, static_cast<int>(axis))};
  rule.results = {dims_with(shape.size(), axis, resized)};
  return rule;
}

std::vector<int> factors_of(const DimFactors& dims) {
  std::vector<int> factors;
  for (const std::vector<int>& dim : dims) factors.insert(factors.end(), dim.begin(), dim.end());
  return factors;
}

}  // namespace alpa::ops
