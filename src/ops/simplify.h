#pragma once
/// Simplifications while a graph is recorded: constants, broadcasts and axes that the public
/// operator functions look at before they add a node.
#include <optional>

#include "src/ir/recorder.h"

namespace alpa::ops {

/// The value of every element, if `x` is a constant.
std::optional<double> constant_of(Value x);

/// The smallest tensor that may replace `x` beside `other`: if both have the result's shape and `x`
/// is a constant or a broadcast, the scalar or the operand of that broadcast. Otherwise `x`.
Value without_broadcast(Value x, Value other);

/// The common broadcast shape; nullopt if there is none.
std::optional<Shape> broadcast_shape(const Shape& x, const Shape& y);

/// `gradient` summed over the dimensions in which an operand of `shape` was broadcast.
Value sum_to(Value gradient, const Shape& shape);

/// x + y, of one type. If both are f32 numbers rounded to bf16 or f16, it is their sum that is
/// rounded.
Value sum_of_gradients(Value x, Value y);

/// `x` before an exact conversion of bf16 or f16 to f32; `x` itself if it is none.
Value before_widening(Value x);

/// x broadcast to `shape`; dimension d of x becomes dimension dims[d].
Value emit_broadcast(Value x, const Shape& shape, const std::vector<std::int64_t>& dims);

/// The producer of `x` if its operator is `op`, else nullptr.
const Node* producer_if(Value x, const OpDef& op);

/// 0, 1, …, n-1.
std::vector<std::int64_t> first_dims(std::int64_t n);

/// `axes` in ascending order, in [0, rank); all axes if empty. Throws Error on an axis that is
/// out of range or given twice.
std::vector<std::int64_t> sorted_axes(std::string_view op, std::vector<std::int64_t> axes, Value x);

/// One axis in [0, rank). Throws Error when out of range.
std::int64_t checked_axis(std::string_view op, std::int64_t axis, const TensorType& type);

}  // namespace alpa::ops
