#pragma once
/// What the public operator functions know about their operands so as not to make needless nodes.
#include <optional>

#include "alpa/ir/builder.h"

namespace alpa::ops {

/// The number of which all elements of `x` are copies, if `x` is a constant.
std::optional<double> constant_of(Value x);

/// A smaller tensor that broadcasts to `x` by itself, when `x` only stretches one and `other` already has
/// the shape of the result.
Value narrowed(Value x, Value other);

/// The shape to which both broadcast, if they do.
std::optional<Shape> broadcast_shape(const Shape& x, const Shape& y);

/// The gradient of an operand of `shape` that was broadcast to the shape of `gradient`: summed over what
/// was stretched.
Value sum_to(Value gradient, const Shape& shape);

/// x stretched to `shape`, its dimension d becoming dimension dims[d].
Value emit_broadcast(Value x, const Shape& shape, const std::vector<std::int64_t>& dims);

/// The node that made `x` if its operator is `op`, else nullptr.
const Node* made_by(Value x, const OpDef& op);

/// 0, 1, …, n-1.
std::vector<std::int64_t> counting(std::int64_t n);

/// `axes` ascending in [0, rank); all when empty. Throws Error on an axis that is out of range or given
/// twice.
std::vector<std::int64_t> sorted_axes(std::string_view op, std::vector<std::int64_t> axes, Value x);

/// One axis in [0, rank). Throws Error when out of range.
std::int64_t checked_axis(std::string_view op, std::int64_t axis, const TensorType& type);

}  // namespace alpa::ops
