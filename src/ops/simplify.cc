// src/ops/simplify.cc — simplifies operands while a graph is recorded
#include "simplify.h"

#include <algorithm>
#include <numeric>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "src/ops/all_ops.h"

namespace alpa::ops {
namespace {

/// True if a broadcast node does what elementwise operators do by themselves:
/// alignment at the last dimension.
bool aligned_at_last(const Node& broadcast, std::int64_t rank_in, std::int64_t rank_out) {
  const std::vector<std::int64_t>& dims = broadcast.attributes.integers("dims");
  for (std::int64_t d = 0; d < rank_in; ++d)
    if (dims[d] != d + rank_out - rank_in) return false;
  return true;
}

}  // namespace

const Node* producer_if(Value x, const OpDef& op) {
  const Node& node = recorder(x).node(recorder(x).producer(x.id));
  return node.op == &op ? &node : nullptr;
}

std::optional<double> constant_of(Value x) {
  const Node* node = producer_if(x, constant);
  return node ? std::optional<double>(node->attributes.real("value")) : std::nullopt;
}

Value without_broadcast(Value x, Value other) {
  if (x.shape() != other.shape() || x.rank() == 0) return x;
  if (const std::optional<double> value = constant_of(x))
    return alpa::constant(*x.builder, *value, x.dtype());
  const Node* node = producer_if(x, broadcast);
  if (!node) return x;
  const Value source = recorder(x).operand(*node, 0);
  return aligned_at_last(*node, source.rank(), x.rank()) ? source : x;
}

std::optional<Shape> broadcast_shape(const Shape& x, const Shape& y) {
  const Shape& longer = x.size() >= y.size() ? x : y;
  const Shape& shorter = x.size() >= y.size() ? y : x;
  Shape shape = longer;
  for (std::size_t d = 0; d < shorter.size(); ++d) {
    std::int64_t& extent = shape[d + longer.size() - shorter.size()];
    if (extent == 1)
      extent = shorter[d];
    else if (shorter[d] != 1 && shorter[d] != extent)
      return std::nullopt;
  }
  return shape;
}

Value sum_to(Value gradient, const Shape& shape) {
  const std::size_t missing = gradient.shape().size() - shape.size();
  Axes axes;
  for (std::size_t d = 0; d < gradient.shape().size(); ++d)
    if (gradient.shape()[d] != 1 && (d < missing || shape[d - missing] == 1))
      axes.push_back(static_cast<std::int64_t>(d));
  const Value total = axes.empty() ? gradient : alpa::sum(gradient, axes);
  return alpa::reshape(total, shape);
}

Value before_widening(Value x) {
  const Node* node = x.dtype() == f32 ? producer_if(x, cast) : nullptr;
  if (!node) return x;
  const Value narrow = recorder(x).operand(*node, 0);
  return narrow.dtype() == bf16 || narrow.dtype() == f16 ? narrow : x;
}

namespace {

/// The operand of a conversion of f32 to bf16 or f16; `x` itself if it is none.
Value before_rounding(Value x) {
  const Node* node = x.dtype() == bf16 || x.dtype() == f16 ? producer_if(x, cast) : nullptr;
  const Value wide = node ? recorder(x).operand(*node, 0) : x;
  return wide.dtype() == f32 ? wide : x;
}

}  // namespace

Value sum_of_gradients(Value x, Value y) {
  const Value wide_x = before_rounding(x), wide_y = before_rounding(y);
  if (wide_x.dtype() != f32 || wide_y.dtype() != f32) return x + y;
  return alpa::cast(wide_x + wide_y, x.dtype());
}

std::vector<std::int64_t> first_dims(std::int64_t n) {
  std::vector<std::int64_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::int64_t checked_axis(std::string_view op, std::int64_t axis, const TensorType& type) {
  const std::int64_t rank = type.rank();
  require(axis >= -rank && axis < rank,
          "{}: axis {} of {}; axes are {} to {}, negative ones count from the end", op, axis,
          to_string(type), -rank, rank - 1);
  return axis < 0 ? axis + rank : axis;
}

std::vector<std::int64_t> sorted_axes(std::string_view op, std::vector<std::int64_t> axes,
                                      Value x) {
  if (axes.empty()) return first_dims(x.rank());
  for (std::int64_t& axis : axes) axis = checked_axis(op, axis, x.type());
  std::sort(axes.begin(), axes.end());
  const auto twice = std::adjacent_find(axes.begin(), axes.end());
  require(twice == axes.end(), "{}: axis {} of {} is given twice", op,
          twice == axes.end() ? -1 : *twice, to_string(x.type()));
  return axes;
}

}  // namespace alpa::ops
