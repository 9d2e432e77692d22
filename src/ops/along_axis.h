#pragma once
/// Shared by operators along one dimension, attribute "axis", in [0, rank): all other dimensions
/// are free factors that operands and results share.
#include "src/ir/op_def.h"

namespace alpa::ops {

/// Attribute "axis". Throws Error unless it is a dimension of `type`.
std::int64_t axis_of(const OpQuery& query, const TensorType& type);

/// A rule whose factors are the dimensions of `shape`, factor d being dimension d; that of `axis`
/// is whole if `whole`.
Rule dims_rule(const Shape& shape, std::int64_t axis, bool whole);

/// Dimensions of a tensor that has the factors of `dims_rule`, but `factor` along `axis`.
DimFactors dims_with(std::size_t rank, std::int64_t axis, int factor);

/// A new factor of `rule`.
int add_factor(Rule& rule, std::int64_t size, bool whole);

/// The rule of a result that is the operand but for the extent `size` of `axis`, which is whole in
/// both.
Rule resized_rule(const Shape& shape, std::int64_t axis, std::int64_t size);

/// The factors of these dimensions.
std::vector<int> factors_of(const DimFactors& dims);

}  // namespace alpa::ops
