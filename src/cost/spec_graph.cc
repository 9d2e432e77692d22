// src/cost/spec_graph.cc — the specs of a value and the steps between them
#include "spec_graph.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "alpa/base/error.h"

namespace alpa::cost {
namespace {

using Kind = AxisPlacement::Kind;

/// Emits each spec once: dimension by dimension, the sequence of axes that split it, then which of
/// the other axes are partial.
class Enumeration {
 public:
  Enumeration(const TensorType& type, const DeviceMesh& mesh, const SpecLimits& limits)
      : mesh_(mesh),
        limits_(limits),
        shape_(type.shape),
        extents_(type.shape),
        parts_(type.shape.size(), 1) {
    list_.rank = type.rank();
  }

  SpecList run() && {
    choose_splits({}, 0);
    return std::move(list_);
  }

 private:
  bool usable(int axis) const { return mesh_.size(axis) > 1 || (limits_.unit_axes >> axis & 1); }

  bool may_split(const ShardingSpec& spec, int axis, int dim) const {
    if (spec.axes[axis].kind != Kind::replicated || !usable(axis)) return false;
    return limits_.more_parts_than_elements || parts_[dim] * mesh_.size(axis) <= shape_[dim];
  }

  void choose_splits(const ShardingSpec& spec, int dim) {
    if (dim == list_.rank) return choose_partials(spec);
    choose_splits(spec, dim + 1);
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (!may_split(spec, axis, dim)) continue;
      const std::int64_t whole = extents_[dim];
      extents_[dim] = (whole + mesh_.size(axis) - 1) / mesh_.size(axis);
      parts_[dim] *= mesh_.size(axis);
      choose_splits(spec.split(axis, dim), dim);
      extents_[dim] = whole;
      parts_[dim] /= mesh_.size(axis);
    }
  }

  void choose_partials(const ShardingSpec& spec) {
    emit(spec, 0);
    if (limits_.partials & kPartialSum) add_partials(spec, 0, Combiner::sum);
    if (limits_.partials & kPartialMax) add_partials(spec, 0, Combiner::max);
  }

  void add_partials(const ShardingSpec& spec, int first_axis, Combiner combiner) {
    for (int axis = first_axis; axis < mesh_.num_axes(); ++axis) {
      if (spec.axes[axis].kind != Kind::replicated || !usable(axis)) continue;
      const ShardingSpec more = spec.partial(axis, combiner);
      emit(more, combiner == Combiner::sum ? kPartialSum : kPartialMax);
      add_partials(more, axis + 1, combiner);
    }
  }

  void emit(const ShardingSpec& spec, std::uint32_t partials) {
    list_.specs.push_back(spec);
    list_.partials.push_back(partials);
    list_.extents.insert(list_.extents.end(), extents_.begin(), extents_.end());
  }

  const DeviceMesh& mesh_;
  const SpecLimits& limits_;
  const Shape& shape_;
  Shape extents_;  ///< nominal chunk of every dimension under the splits chosen so far
  Shape parts_;    ///< number of parts, per dimension
  SpecList list_;
};

void admit(const ShardingSpec& spec, const TensorType& type, const DeviceMesh& mesh,
           SpecLimits& limits) {
  for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
    const AxisPlacement& a = spec.axes[axis];
    if (a.kind == Kind::replicated) continue;
    invariant(axis < mesh.num_axes() && (a.kind == Kind::partial || a.dim < type.rank()),
              "{} is not a spec of {} on a mesh of {} axes", to_string(spec), to_string(type),
              mesh.num_axes());
    if (mesh.size(axis) == 1) limits.unit_axes |= 1u << axis;
    if (a.kind == Kind::partial)
      limits.partials |= a.combiner == Combiner::sum ? kPartialSum : kPartialMax;
  }
}

std::uint64_t code_of(const ShardingSpec& spec) {
  std::uint64_t code = 0;
  for (const AxisPlacement& a : spec.axes) {
    code = code << 16 | static_cast<std::uint64_t>(a.dim) << 8 |
           static_cast<std::uint64_t>(a.order) << 4 | static_cast<std::uint64_t>(a.kind) << 1 |
           static_cast<std::uint64_t>(a.combiner);
  }
  return code;
}

void index_codes(SpecGraph& graph) {
  const std::vector<ShardingSpec>& specs = graph.list.specs;
  std::vector<std::uint64_t> codes(specs.size());
  std::transform(specs.begin(), specs.end(), codes.begin(), code_of);
  graph.by_code.resize(specs.size());
  std::iota(graph.by_code.begin(), graph.by_code.end(), 0);
  std::sort(graph.by_code.begin(), graph.by_code.end(),
            [&](int a, int b) { return codes[a] < codes[b]; });
  graph.codes.reserve(specs.size());
  for (int spec : graph.by_code) graph.codes.push_back(codes[spec]);
}

/// Index of a spec, or -1.
int find(const SpecGraph& graph, const ShardingSpec& spec) {
  const std::uint64_t code = code_of(spec);
  const auto place = std::lower_bound(graph.codes.begin(), graph.codes.end(), code);
  return place == graph.codes.end() || *place != code ? -1
                                                      : graph.by_code[place - graph.codes.begin()];
}

/// Prices and records the moves that leave each spec. Bytes are those of the largest
/// part, so a collective over uneven parts is charged n times its largest part: the ring
/// waits for it in every round.
class MoveBuilder {
 public:
  MoveBuilder(SpecGraph& graph, const TensorType& type, const DeviceMesh& mesh,
              const ReshardModel& model)
      : graph_(graph), mesh_(mesh), model_(model) {
    bytes_.assign(graph.list.specs.size(), static_cast<double>(size_of(type.dtype)));
    for (std::size_t spec = 0; spec < bytes_.size(); ++spec) {
      for (int d = 0; d < type.rank(); ++d)
        bytes_[spec] *= static_cast<double>(graph.list.extents_of(spec)[d]);
    }
  }

  void add_moves_from(int spec) {
    from_ = spec;
    std::uint32_t partial_axes = 0;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      const AxisPlacement& placement = source().axes[axis];
      if (placement.kind == Kind::replicated) leave_replicated(axis);
      if (placement.kind == Kind::split && is_minor_most(placement))
        leave_split(axis, placement.dim);
      if (placement.kind == Kind::partial) {
        reduce_scatter(axis);
        partial_axes |= 1u << axis;
      }
    }
    for (std::uint32_t axes = 1; axes <= partial_axes; ++axes) {
      if ((axes & partial_axes) == axes) all_reduce(axes);
    }
  }

 private:
  const ShardingSpec& source() const { return graph_.list.specs[from_]; }

  bool is_minor_most(const AxisPlacement& placement) const {
    for (const AxisPlacement& other : source().axes) {
      if (other.kind == Kind::split && other.dim == placement.dim && other.order > placement.order)
        return false;
    }
    return true;
  }

  void leave_replicated(int axis) {
    for (int dim = 0; dim < graph_.list.rank; ++dim) {
      const int to = find(graph_, source().split(axis, dim));
      if (to >= 0) add(to, CollectiveKind::slice, 1u << axis, dim, -1, local_seconds(to));
    }
    for (Combiner combiner : {Combiner::sum, Combiner::max}) {
      const int to = find(graph_, source().partial(axis, combiner));
      if (to >= 0)
        add(to, CollectiveKind::to_partial, 1u << axis, -1, -1,
            local_seconds(to) + to_partial_tail(model_.collectives));
    }
  }

  void leave_split(int axis, int from_dim) {
    const ShardingSpec without = source().without(axis);
    const int gathered = find(graph_, without);
    const double all_bytes = mesh_.size(axis) * bytes_[from_];
    if (gathered >= 0) {
      add(gathered, CollectiveKind::all_gather, 1u << axis, from_dim, from_dim,
          seconds(CollectiveKind::all_gather, all_bytes, 1u << axis) +
              packing_seconds(gathered, from_dim));
    }
    for (int dim = 0; dim < graph_.list.rank; ++dim) {
      const int to = dim == from_dim ? -1 : find(graph_, without.split(axis, dim));
      if (to < 0) continue;
      const double extent = static_cast<double>(graph_.list.extents_of(from_)[dim]);
      const double piece =
          extent > 0 ? bytes_[from_] / extent * static_cast<double>(graph_.list.extents_of(to)[dim])
                     : 0;
      add(to, CollectiveKind::all_to_all, 1u << axis, dim, from_dim,
          seconds(CollectiveKind::all_to_all, mesh_.size(axis) * piece, 1u << axis) +
              packing_seconds(from_, dim) + packing_seconds(to, from_dim));
    }
  }

  void reduce_scatter(int axis) {
    const ShardingSpec without = source().without(axis);
    for (int dim = 0; dim < graph_.list.rank; ++dim) {
      const int to = find(graph_, without.split(axis, dim));
      if (to < 0) continue;
      add(to, CollectiveKind::reduce_scatter, 1u << axis, dim, -1,
          seconds(CollectiveKind::reduce_scatter, mesh_.size(axis) * bytes_[to], 1u << axis) +
              packing_seconds(from_, dim));
    }
  }

  void all_reduce(std::uint32_t axes) {
    ShardingSpec reduced = source();
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (axes >> axis & 1) reduced.axes[axis] = {};
    }
    const int to = find(graph_, reduced);
    if (to >= 0)
      add(to, CollectiveKind::all_reduce, axes, -1, -1,
          seconds(CollectiveKind::all_reduce, bytes_[from_], axes));
  }

  double seconds(CollectiveKind kind, double bytes, std::uint32_t axes) const {
    std::array<int, kMaxMeshAxes> list{};
    std::size_t n = 0;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (axes >> axis & 1) list[n++] = axis;
    }
    return collective_seconds(kind, bytes, mesh_, std::span(list.data(), n), model_.collectives);
  }

  /// Seconds to read and write a device's part under a spec.
  double local_seconds(int spec) const {
    return model_.memory_bytes_per_second > 0 ? 2 * bytes_[spec] / model_.memory_bytes_per_second
                                              : 0;
  }

  /// Seconds to pack or unpack a device's part along `dim`; 0 where the parts
  /// are contiguous in memory.
  double packing_seconds(int spec, int dim) const {
    const std::int64_t* extents = graph_.list.extents_of(spec);
    const bool contiguous =
        std::all_of(extents, extents + dim, [](std::int64_t extent) { return extent <= 1; });
    return contiguous ? 0 : local_seconds(spec);
  }

  void add(int to, CollectiveKind kind, std::uint32_t axes, int dim, int from_dim, double seconds) {
    if (!std::isfinite(seconds)) return;
    const bool moves_nothing = std::has_single_bit(axes) && mesh_.size(std::countr_zero(axes)) == 1;
    graph_.moves.push_back({moves_nothing ? 0 : seconds + model_.launch_seconds, from_, to, kind,
                            static_cast<std::uint8_t>(axes), static_cast<std::int16_t>(dim),
                            static_cast<std::int16_t>(from_dim)});
  }

  SpecGraph& graph_;
  const DeviceMesh& mesh_;
  const ReshardModel& model_;
  std::vector<double> bytes_;  ///< of the largest shard, per spec
  int from_ = 0;
};

}  // namespace

SpecList enumerate_specs(const TensorType& type, const DeviceMesh& mesh, const SpecLimits& limits) {
  return Enumeration(type, mesh, limits).run();
}

int SpecGraph::index(const ShardingSpec& spec) const {
  const int found = find(*this, spec);
  if (found < 0) bug("spec {} is not among those of this value and mesh", to_string(spec));
  return found;
}

SpecLimits limits_for(const TensorType& type, std::span<const ShardingSpec> specs,
                      const DeviceMesh& mesh, SpecLimits limits) {
  // Every graph contains splits into more parts than elements, so that a price does not depend on
  // which other specs are asked for.
  limits.more_parts_than_elements = true;
  for (const ShardingSpec& spec : specs) admit(spec, type, mesh, limits);
  return limits;
}

SpecGraph spec_graph(const TensorType& type, const SpecLimits& limits, const DeviceMesh& mesh,
                     const ReshardModel& model) {
  SpecGraph graph;
  graph.list = enumerate_specs(type, mesh, limits);
  index_codes(graph);
  MoveBuilder builder(graph, type, mesh, model);
  for (int spec = 0; spec < static_cast<int>(graph.list.specs.size()); ++spec) {
    graph.first_move.push_back(static_cast<int>(graph.moves.size()));
    builder.add_moves_from(spec);
  }
  graph.first_move.push_back(static_cast<int>(graph.moves.size()));
  return graph;
}

}  // namespace alpa::cost
