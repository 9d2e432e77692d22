// src/import/emit_shapes.cc — kinds that move elements, and sources
#include <algorithm>
#include <cmath>

#include "alpa/ops/ops.h"
#include "src/import/emit.h"
#include "src/ops/all_ops.h"
#include "src/ops/simplify.h"

namespace alpa::stablehlo {
namespace {

using Integers = std::vector<std::int64_t>;

/// Lists of one number per dimension of operand 0.
Integers per_dimension(const Call& call, std::string_view name) {
  Integers found = call.source().integers(name);
  if (found.size() != call.in.at(0).shape().size())
    call.fail("{} has {} numbers for {}", name, found.size(), to_string(call.operand(0).type));
  return found;
}

Values emit_constant(const Call& call) {
  const Attribute& value = call.source().attribute("value");
  return {literal(call.graph, value.numbers, call.result_type())};
}

Values emit_iota(const Call& call) {
  return {iota(call.graph, call.result_type(), call.source().integer("iota_dimension"))};
}

Values emit_broadcast(const Call& call) {
  const Integers dims = per_dimension(call, "broadcast_dimensions");
  const Shape& to = call.result().shape;
  Integers sorted = dims;
  std::ranges::sort(sorted);
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (dims[d] < 0 || dims[d] >= static_cast<std::int64_t>(to.size()) ||
        (d > 0 && sorted[d] == sorted[d - 1]))
      call.fail("dimension {} of {} can't be dimension {} of {}", d,
                to_string(call.operand(0).type), dims[d], to_string(call.result()));
  return {broadcast(call.in[0], to, dims)};
}

Values emit_reshape(const Call& call) { return {reshape(call.in[0], call.result().shape)}; }

Values emit_transpose(const Call& call) {
  return {transpose(call.in[0], per_dimension(call, "permutation"))};
}

Values emit_slice(const Call& call) {
  const Integers first = per_dimension(call, "start_indices"),
                 last = per_dimension(call, "limit_indices"),
                 stride = per_dimension(call, "strides");
  Value x = call.in[0];
  for (std::size_t d = 0; d < first.size(); ++d) {
    if (first[d] < 0 || last[d] > x.shape()[d])
      call.fail("{} to {} of dimension {} of {}", first[d], last[d], d,
                to_string(call.operand(0).type));
    x = slice(x, static_cast<std::int64_t>(d), first[d], last[d], stride[d]);
  }
  return {x};
}

Values emit_concatenate(const Call& call) {
  if (call.in.empty()) call.fail("no operands");
  return {call.in.size() == 1 ? call.in[0]
                              : concatenate(call.in, call.source().integer("dimension"))};
}

/// Rows [1, …] of a tensor that a loop wrote one by one.
Values emit_stack(const Call& call) {
  return {call.in.size() == 1 ? call.in[0] : concatenate(call.in, 0)};
}

Values emit_pad(const Call& call) {
  const Integers before = per_dimension(call, "edge_padding_low"),
                 after = per_dimension(call, "edge_padding_high"),
                 interior = per_dimension(call, "interior_padding");
  if (!call.known(1)) call.fail("with a value that depends on data is not supported");
  Value x = call.in[0];
  for (std::size_t d = 0; d < before.size(); ++d)
    x = resized(call.graph, x, static_cast<std::int64_t>(d), before[d], after[d], interior[d],
                *call.known(1));
  return {x};
}

Values emit_reverse(const Call& call) {
  Value x = call.in[0];
  for (std::int64_t d : call.source().integers("dimensions")) x = reversed(x, d);
  return {x};
}

/// The positions of operands from `first` on where they are known, clamped as StableHLO says.
std::optional<Integers> known_starts(const Call& call, const Shape& part, std::size_t first) {
  const Shape& whole = call.in.at(0).shape();
  if (part.size() != whole.size() || call.in.size() != first + whole.size())
    call.fail("{} positions for {}", call.in.size(), to_string(call.operand(0).type));
  Integers starts;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const bool all = part[d] == whole[d];
    const double start = call.known(first + d).value_or(kMostPosition);
    if (!all && !(std::abs(start) < kMostPosition)) return std::nullopt;
    starts.push_back(all ? 0
                         : std::clamp<std::int64_t>(static_cast<std::int64_t>(start), 0,
                                                    std::max<std::int64_t>(0, whole[d] - part[d])));
  }
  return starts;
}

/// Elements `ids` of a dimension; whole numbers as f64, which has them all.
Value taken(Value x, Value ids, std::size_t d) {
  const auto axis = static_cast<std::int64_t>(d);
  if (is_floating(x.dtype())) return gather(x, ids, axis);
  return cast(gather(cast(x, f64), ids, axis), x.dtype());
}

/// A position that depends on data, from 0 to `most`: [1].
Value position(const Call& call, std::size_t operand, std::int64_t most) {
  if (call.operand(operand).type.is_unsigned()) call.fail("at unsigned positions; use i32");
  return reshape(minimum(maximum(call.in[operand], 0), static_cast<double>(most)), {1});
}

/// The part of this shape at positions that depend on data.
Value picked(const Call& call, const Shape& part) {
  Value x = call.in[0];
  for (std::size_t d = 0; d < part.size(); ++d) {
    const std::int64_t all = x.shape()[d], n = part[d];
    if (n < all) x = taken(x, position(call, 1 + d, all - n) + iota(x, {i32, {n}}, 0), d);
  }
  return x;
}

/// The whole with a part at positions that depend on data: each element is one of either.
Value replaced_at(const Call& call) {
  Value part = call.in[1], inside;
  const Shape& whole = call.in[0].shape();
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const std::int64_t all = whole[d], n = part.shape()[d];
    if (n == all) continue;
    const Value at = iota(part, {i32, {all}}, 0) - position(call, 2 + d, all - n),
                within = minimum(maximum(at, 0), static_cast<double>(n - 1)),
                fits = broadcast(eq(at, within), whole, {static_cast<std::int64_t>(d)});
    part = taken(part, within, d);
    inside = inside ? where(inside, fits, 0) : fits;
  }
  return where(inside, part, call.in[0]);
}

Values emit_dynamic_slice(const Call& call) {
  if (call.in.empty()) call.fail("no operands");
  const Shape part = per_dimension(call, "slice_sizes");
  const auto starts = known_starts(call, part, 1);
  if (!starts) return {picked(call, part)};
  Value x = call.in[0];
  for (std::size_t d = 0; d < part.size(); ++d)
    x = slice(x, static_cast<std::int64_t>(d), (*starts)[d], (*starts)[d] + part[d]);
  return {x};
}

/// `x` with `part` at `starts`: dimension by dimension, what lies before, within and behind.
Value replaced(Value x, Value part, const Integers& starts, std::size_t d) {
  if (d == starts.size()) return part;
  const auto axis = static_cast<std::int64_t>(d);
  const std::int64_t begin = starts[d], end = begin + part.shape()[d], all = x.shape()[d];
  const Value within = begin == 0 && end == all ? x : slice(x, axis, begin, end);
  Values parts;
  if (begin > 0) parts.push_back(slice(x, axis, 0, begin));
  parts.push_back(replaced(within, part, starts, d + 1));
  if (end < all) parts.push_back(slice(x, axis, end, all));
  return parts.size() == 1 ? parts[0] : concatenate(parts, axis);
}

Values emit_dynamic_update_slice(const Call& call) {
  if (call.in.size() < 2) call.fail("no operands");
  const auto starts = known_starts(call, call.in[1].shape(), 2);
  if (!starts) return {replaced_at(call)};
  return {replaced(call.in[0], call.in[1], *starts, 0)};
}

}  // namespace

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> found(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    found[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return found;
}

Value broadcast(Value x, const Shape& shape, const std::vector<std::int64_t>& dims) {
  Shape kept;
  Integers places;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (x.shape()[d] != 1 || shape[static_cast<std::size_t>(dims[d])] == 1) {
      kept.push_back(x.shape()[d]);
      places.push_back(dims[d]);
    }
  const Value squeezed = reshape(x, kept);
  if (squeezed.type().elements() == num_elements(shape) && std::ranges::is_sorted(places))
    return reshape(squeezed, shape);
  if (std::ranges::is_sorted(places)) return ops::emit_broadcast(squeezed, shape, places);
  Integers order(places.size()), sorted = places;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = std::ranges::find(places, sorted[i]) - places.begin();
  return broadcast(transpose(squeezed, order), shape, sorted);
}

Value resized(Recorder& graph, Value x, std::int64_t axis, std::int64_t before, std::int64_t after,
              std::int64_t interior, double value) {
  const auto positive = [](std::int64_t n) { return std::max<std::int64_t>(n, 0); };
  if (positive(before) + positive(after) + interior > 0)
    x = graph.emit_one(ops::pad, {x},
                       {{"axis", axis},
                        {"before", positive(before)},
                        {"after", positive(after)},
                        {"interior", interior},
                        {"value", value}});
  const std::int64_t extent = x.shape()[static_cast<std::size_t>(axis)];
  if (before < 0 || after < 0) x = slice(x, axis, positive(-before), extent - positive(-after));
  return x;
}

Value reversed(Value x, std::int64_t axis) {
  const std::int64_t extent = x.dim(axis);
  if (extent == 1) return x;
  constexpr std::int64_t kFew = 16;
  if (extent > kFew && is_floating(x.dtype()))
    return gather(x, static_cast<double>(extent - 1) - iota(x, {i32, {extent}}, 0), axis);
  Values parts;
  for (std::int64_t i = extent; i-- > 0;) parts.push_back(slice(x, axis, i, i + 1));
  return concatenate(parts, axis);
}

std::vector<Row> shape_rows() {
  return {
      {"stablehlo.broadcast_in_dim", emit_broadcast, 1},
      {"stablehlo.concatenate", emit_concatenate},
      {"stablehlo.constant", emit_constant},
      {"stablehlo.dynamic_slice", emit_dynamic_slice},
      {"stablehlo.dynamic_update_slice", emit_dynamic_update_slice},
      {"stablehlo.iota", emit_iota},
      {"stablehlo.pad", emit_pad, 2},
      {"stablehlo.reshape", emit_reshape, 1},
      {"stablehlo.reverse", emit_reverse, 1},
      {"stablehlo.slice", emit_slice, 1},
      {"stablehlo.transpose", emit_transpose, 1},
      {"alpa.stack", emit_stack},
  };
}

}  // namespace alpa::stablehlo
