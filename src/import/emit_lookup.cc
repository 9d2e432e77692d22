// src/import/emit_lookup.cc — gather and scatter: rows of a table by their positions, or elements
// along one dimension
#include <algorithm>
#include <cmath>

#include "alpa/ops/ops.h"
#include "src/import/emit.h"
#include "src/ops/all_ops.h"

namespace alpa::stablehlo {
namespace {

using Integers = std::vector<std::int64_t>;

bool has(const Integers& list, std::int64_t d) { return std::ranges::find(list, d) != list.end(); }

/// Field `name`: different dimensions of `rank`.
Integers dims_of(const Call& call, const Attribute& numbers, std::string_view name,
                 std::size_t rank) {
  const Integers dims = field(numbers, name);
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 0 || dims[i] >= static_cast<std::int64_t>(rank) ||
        std::count(dims.begin(), dims.end(), dims[i]) > 1)
      call.fail("{} has {} twice, or beyond {} dimensions", name, dims[i], rank);
  return dims;
}

/// What gather and scatter have in common. Dimensions of the whole tensor are batching (the same in
/// indices), indexed (one element at a position), or full.
struct Lookup {
  Shape whole;                       ///< of gather's operand and scatter's result
  Integers batching, indexed, full;  ///< dimensions of the whole
  Integers vector;                   ///< for each of `indexed`, its place in an index vector
  Integers index_batching;           ///< dimensions of indices, in the order of `batching`
  Integers windows;                  ///< dimensions of the part that are of the whole's
  Integers window_of;                ///< the whole's dimension of each
  Value indices;                     ///< index vectors are its last dimension
  std::size_t groups() const { return indices.shape().size() - 1; }  ///< its other dimensions
};

/// Index vectors moved to the last dimension of their own.
Value vectors_last(const Call& call, Value indices, std::int64_t vector_dim) {
  const auto rank = static_cast<std::int64_t>(indices.shape().size());
  if (vector_dim < 0 || vector_dim > rank) call.fail("index_vector_dim is {}", vector_dim);
  if (vector_dim == rank) {
    Shape shape = indices.shape();
    shape.push_back(1);
    return reshape(indices, shape);
  }
  Axes order;
  for (std::int64_t d = 0; d < rank; ++d)
    if (d != vector_dim) order.push_back(d);
  order.push_back(vector_dim);
  return transpose(indices, order);
}

std::int64_t one_or(const Integers& list, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[0];
}

/// `sizes`: of the part along each dimension of the whole; `gone`: those that the part lacks.
Lookup lookup_of(const Call& call, const Attribute& numbers, const Integers& sizes,
                 const Integers& gone, const Integers& map, const Integers& batching) {
  Lookup l;
  l.whole = call.in[0].shape(), l.batching = batching;
  if (sizes.size() != l.whole.size())
    call.fail("{} sizes for {}", sizes.size(), alpa::to_string(l.whole));
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(l.whole.size()); ++d) {
    const auto at = static_cast<std::size_t>(d);
    const auto place = std::ranges::find(map, d);
    if (has(batching, d)) continue;
    if (sizes[at] == l.whole[at] && (l.whole[at] != 1 || place == map.end())) {
      l.full.push_back(d);
    } else if (place != map.end() && sizes[at] == 1) {
      l.indexed.push_back(d);
      l.vector.push_back(place - map.begin());
    } else {
      call.fail(
          "of {} of the {} elements of dimension {} at a position that depends on data is not "
          "supported; use one element, or all",
          sizes[at], l.whole[at], d);
    }
  }
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(l.whole.size()); ++d)
    if (!has(gone, d) && !has(batching, d)) l.window_of.push_back(d);
  const std::int64_t vector_dim = one_or(field(numbers, "index_vector_dim"), 0);
  l.indices = vectors_last(call, call.in[1], vector_dim);
  if (l.indices.dim(-1) != static_cast<std::int64_t>(map.size()))
    call.fail("index vectors have {} numbers for {} dimensions", l.indices.dim(-1), map.size());
  return l;
}

/// Positions along dimension `l.indexed[i]`.
Value positions(const Lookup& l, std::size_t i) {
  const std::int64_t at = l.vector[i];
  Shape shape = l.indices.shape();
  shape.pop_back();
  return reshape(slice(l.indices, -1, at, at + 1), shape);
}

/// Positions in the dimensions `l.indexed` together, row-major; those outside are clamped. `inside`
/// is 1 where none was.
Value joined_positions(const Lookup& l, Value& inside) {
  Value joined;
  for (std::size_t i = 0; i < l.indexed.size(); ++i) {
    const std::int64_t extent = l.whole[static_cast<std::size_t>(l.indexed[i])];
    const Value found = positions(l, i);
    const Value clamped = minimum(maximum(found, 0), static_cast<double>(extent - 1));
    const Value fits = eq(clamped, found);
    joined = joined ? joined * static_cast<double>(extent) + clamped : clamped;
    inside = inside ? where(inside, fits, 0) : fits;
  }
  return joined;
}

std::int64_t product(const Lookup& l, const Integers& dims) {
  Shape extents;
  for (std::int64_t d : dims) extents.push_back(l.whole[static_cast<std::size_t>(d)]);
  return num_elements(extents);
}

Integers joined_lists(std::initializer_list<Integers> lists) {
  Integers all;
  for (const Integers& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// A part's dimensions, without those of extent 1 that are indexed: which are batching ones, others
/// of indices, and full ones of the whole.
struct PartOrder {
  Shape squeezed;  ///< the part's extents without those dimensions
  Axes order;      ///< of `squeezed`: batching, other dimensions of indices, full
};

PartOrder order_of(const Call& call, const Lookup& l, const Shape& part) {
  PartOrder found;
  Integers groups, full;
  std::size_t window = 0;
  for (std::size_t d = 0; d < part.size(); ++d) {
    const auto here = static_cast<std::int64_t>(found.squeezed.size());
    if (has(l.windows, static_cast<std::int64_t>(d))) {
      if (window >= l.window_of.size())
        call.fail("more dimensions than {}", alpa::to_string(l.whole));
      if (has(l.indexed, l.window_of[window++])) continue;
      full.push_back(here);
    } else {
      groups.push_back(here);
    }
    found.squeezed.push_back(part[d]);
  }
  if (groups.size() != l.groups())
    call.fail("{} dimensions of indices, not {}", groups.size(), l.groups());
  Integers batching, others;
  for (std::int64_t d : l.index_batching)
    batching.push_back(groups.at(static_cast<std::size_t>(d)));
  for (std::int64_t d : groups)
    if (!has(batching, d)) others.push_back(d);
  found.order = joined_lists({batching, others, full});
  return found;
}

Shape permuted(const Shape& shape, const Axes& order) {
  Shape found;
  for (std::int64_t d : order) found.push_back(shape[static_cast<std::size_t>(d)]);
  return found;
}

/// Positions with batching dimensions first, then the others as one, then the whole's full ones:
/// [batching…, elements, full…].
Value along(const Lookup& l, Value positions, const Shape& full) {
  Integers others;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(l.groups()); ++d)
    if (!has(l.index_batching, d)) others.push_back(d);
  const Value ordered = transpose(positions, joined_lists({l.index_batching, others}));
  Shape shape(ordered.shape().begin(),
              ordered.shape().begin() + static_cast<std::ptrdiff_t>(l.batching.size()));
  shape.push_back(-1);
  Value found = reshape(ordered, shape);
  Shape with_full = found.shape(), to = with_full;
  for (std::int64_t extent : full) with_full.push_back(1), to.push_back(extent);
  return broadcast_to(reshape(found, with_full), to);
}

Shape full_extents(const Lookup& l) { return permuted(l.whole, l.full); }

Lookup gather_lookup(const Call& call) {
  const Attribute& numbers = call.source().attribute("dimension_numbers");
  const std::size_t rank = call.in[0].shape().size();
  Lookup l = lookup_of(call, numbers, call.source().integers("slice_sizes"),
                       dims_of(call, numbers, "collapsed_slice_dims", rank),
                       dims_of(call, numbers, "start_index_map", rank),
                       dims_of(call, numbers, "operand_batching_dims", rank));
  l.windows = dims_of(call, numbers, "offset_dims", call.result().shape.size());
  l.index_batching = dims_of(call, numbers, "start_indices_batching_dims", l.groups());
  return l;
}

/// The one element of indices, where it is known.
bool is_known_position(const Call& call, const Lookup& l) {
  return call.known(1) && std::abs(*call.known(1)) < kMostPosition &&
         l.indices.type().elements() == static_cast<std::int64_t>(l.vector.size()) &&
         l.batching.empty();
}

Value sliced(const Call& call, const Lookup& l) {
  Value x = call.in[0];
  for (std::int64_t d : l.indexed) {
    const std::int64_t at = std::clamp<std::int64_t>(static_cast<std::int64_t>(*call.known(1)), 0,
                                                     l.whole[static_cast<std::size_t>(d)] - 1);
    x = slice(x, d, at, at + 1);
  }
  return reshape(x, call.result().shape);
}

Values emit_gather(const Call& call) {
  const Lookup l = gather_lookup(call);
  if (l.indexed.empty()) return {reshape(call.in[0], call.result().shape)};
  if (is_known_position(call, l)) return {sliced(call, l)};
  const Value x = transpose(is_floating(call.in[0].dtype()) ? call.in[0] : cast(call.in[0], f64),
                            joined_lists({l.batching, l.indexed, l.full}));
  Shape shape = permuted(l.whole, l.batching);
  shape.push_back(product(l, l.indexed));
  for (std::int64_t extent : full_extents(l)) shape.push_back(extent);
  Value inside;
  const Value ids = joined_positions(l, inside), table = reshape(x, shape);
  const PartOrder part = order_of(call, l, call.result().shape);
  const Value found = l.batching.empty()
                          ? gather(table, ids, 0)
                          : take_along_axis(table, along(l, ids, full_extents(l)),
                                            static_cast<std::int64_t>(l.batching.size()));
  const Value whole = reshape(found, permuted(part.squeezed, part.order));
  return {cast(reshape(transpose(whole, inverse(part.order)), call.result().shape),
               call.in[0].dtype())};
}

Lookup scatter_lookup(const Call& call) {
  const Attribute& numbers = call.source().attribute("scatter_dimension_numbers");
  const std::size_t rank = call.in[0].shape().size();
  const Integers windows = dims_of(call, numbers, "update_window_dims", call.in[2].shape().size()),
                 gone = dims_of(call, numbers, "inserted_window_dims", rank),
                 batching = dims_of(call, numbers, "input_batching_dims", rank);
  Integers sizes;
  std::size_t window = 0;
  for (std::size_t d = 0; d < call.in[0].shape().size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (has(gone, dim) || has(batching, dim)) {
      sizes.push_back(1);
      continue;
    }
    const std::int64_t at = window < windows.size() ? windows[window++] : -1;
    if (at < 0) call.fail("update_window_dims lacks dimension {}", d);
    sizes.push_back(call.in[2].shape()[static_cast<std::size_t>(at)]);
  }
  Lookup l = lookup_of(call, numbers, sizes, gone,
                       dims_of(call, numbers, "scatter_dims_to_operand_dims", rank), batching);
  l.windows = windows;
  l.index_batching = dims_of(call, numbers, "scatter_indices_batching_dims", l.groups());
  return l;
}

/// Updates added up by position: [batching…, indexed together, full…].
Value added(const Lookup& l, Value rows, Value ids) {
  const Shape full = full_extents(l);
  const std::int64_t extent = product(l, l.indexed);
  if (!l.batching.empty()) {
    const Value where_to = along(l, ids, full);
    const auto axis = static_cast<std::int64_t>(l.batching.size());
    return recorder(rows).emit_one(ops::take_along_axis_grad,
                                   {reshape(rows, where_to.shape()), where_to},
                                   {{"axis", axis}, {"extent", extent}});
  }
  Shape flat = ids.shape();
  flat.push_back(num_elements(full));
  return scatter_add(reshape(rows, flat), ids, extent);
}

Values emit_scatter(const Call& call) {
  if (call.in.size() != 3) call.fail("of several tensors together is not supported");
  if (combiner(call.source()) != "stablehlo.add" || !is_floating(call.in[0].dtype()))
    call.fail(
        "that replaces elements, or of whole numbers, is not supported, only adding floating "
        "ones; use jnp.where with a comparison of jnp.arange");
  const Lookup l = scatter_lookup(call);
  const PartOrder part = order_of(call, l, call.in[2].shape());
  Value inside;
  const Value ids = joined_positions(l, inside);
  Value rows = transpose(reshape(call.in[2], part.squeezed), part.order);
  if (inside) {
    // Updates outside of the tensor are left out.
    Integers others;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(l.groups()); ++d)
      if (!has(l.index_batching, d)) others.push_back(d);
    const Value fits = transpose(inside, joined_lists({l.index_batching, others}));
    Axes places;
    for (std::size_t d = 0; d < fits.shape().size(); ++d)
      places.push_back(static_cast<std::int64_t>(d));
    rows = where(broadcast(fits, rows.shape(), places), rows, 0);
  }
  const Axes order = joined_lists({l.batching, l.indexed, l.full});
  const Value sums = l.indexed.empty() ? rows : added(l, rows, ids);
  const Value found = transpose(reshape(sums, permuted(l.whole, order)), inverse(order));
  return {call.known(0) == 0.0 ? found : call.in[0] + found};
}

}  // namespace

std::vector<Row> lookup_rows() {
  return {{"stablehlo.gather", emit_gather, 2}, {"stablehlo.scatter", emit_scatter}};
}

}  // namespace alpa::stablehlo
