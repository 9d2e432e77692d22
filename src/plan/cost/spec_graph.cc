// src/plan/cost/spec_graph.cc — the specs of a value and the steps between them
#include "src/plan/cost/spec_graph.h"

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
    for (Combiner combiner : kCombiners)
      if (limits_.partials & partials_of(combiner)) add_partials(spec, 0, combiner);
  }

  void add_partials(const ShardingSpec& spec, int first_axis, Combiner combiner) {
    for (int axis = first_axis; axis < mesh_.num_axes(); ++axis) {
      if (spec.axes[axis].kind != Kind::replicated || !usable(axis)) continue;
      const ShardingSpec more = spec.partial(axis, combiner);
      emit(more, partials_of(combiner));
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
    if (a.kind == Kind::partial) limits.partials |= partials_of(a.combiner);
  }
}

std::uint64_t code_of(const ShardingSpec& spec) {
  std::uint64_t code = 0;
  for (const AxisPlacement& a : spec.axes) {
    code = code << 16 | static_cast<std::uint64_t>(a.dim) << 8 |
           static_cast<std::uint64_t>(a.order) << 4 | static_cast<std::uint64_t>(a.kind) << 2 |
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

/// The largest part that a device has of a value.
struct LargestShard {
  double bytes;
  const std::int64_t* extents;
};

/// Bytes of a step: as `collective_seconds` takes them, and those that a device itself reads and
/// writes. A collective over uneven parts is charged n times its largest part: the ring waits for
/// it in every round. Parts that are not contiguous in memory are packed.
struct StepBytes {
  double collective = 0, local = 0;
};

StepBytes step_bytes(CollectiveKind kind, int dim, int from_dim, int devices,
                     const LargestShard& from, const LargestShard& to) {
  const auto packed = [](const LargestShard& part, int along) {
    const bool contiguous = std::all_of(part.extents, part.extents + along,
                                        [](std::int64_t extent) { return extent <= 1; });
    return contiguous ? 0 : 2 * part.bytes;
  };
  if (!exchanges(kind)) return {0, 2 * to.bytes};
  const double local =
      (splits(kind) ? packed(from, dim) : 0) + (joins(kind) ? packed(to, from_dim) : 0);
  if (gathers(kind)) return {devices * from.bytes, local};
  if (!splits(kind)) return {from.bytes, local};
  if (!pairwise(kind)) return {devices * to.bytes, local};
  const auto extent = static_cast<double>(from.extents[dim]);
  const double piece = extent > 0 ? from.bytes / extent * static_cast<double>(to.extents[dim]) : 0;
  return {devices * piece, local};
}

double seconds_of(CollectiveKind kind, std::span<const int> axes, const StepBytes& bytes,
                  const DeviceMesh& mesh, const ReshardModel& model) {
  if (axes.size() == 1 && mesh.size(axes[0]) == 1) return 0;
  double seconds = exchanges(kind)
                       ? collective_seconds(kind, bytes.collective, mesh, axes, model.collectives)
                       : tie_break_seconds(kind, model.collectives);
  if (model.memory_bytes_per_second > 0) seconds += bytes.local / model.memory_bytes_per_second;
  return seconds + model.launch_seconds;
}

StepBytes step_bytes(const TensorType& type, const ShardingSpec& from, const ReshardStep& step,
                     const DeviceMesh& mesh) {
  const std::vector<int> first(mesh.num_axes(), 0);
  const Shape before = local_shape(type.shape, from, mesh, first),
              after = local_shape(type.shape, step.to, mesh, first);
  const auto part = [&](const Shape& shape) {
    return LargestShard{static_cast<double>(TensorType{type.dtype, shape}.bytes()), shape.data()};
  };
  return step_bytes(step.kind, step.dim, step.from_dim, mesh.size(step.axes.front()), part(before),
                    part(after));
}

/// Prices and records the moves that leave each spec.
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
      if (source().axes[axis].kind == Kind::partial) partial_axes |= 1u << axis;
    }
    const auto every_axis = (1u << mesh_.num_axes()) - 1;
    for (const CollectiveDef& def : kCollectives) {
      for (std::uint32_t axes = 1; axes <= every_axis; ++axes)
        if (may_begin(def, axes, partial_axes)) add_moves(def, axes);
    }
  }

 private:
  const ShardingSpec& source() const { return graph_.list.specs[from_]; }

  /// With sums of one order, the axes that are reduced are the last partial ones.
  bool may_reduce(std::uint32_t axes, std::uint32_t partial_axes) const {
    return !model_.fixed_sums || (partial_axes & ~axes) < (axes & ~(axes - 1));
  }

  /// True if the source has, on each of `axes`, the layout that the collective begins with.
  bool may_begin(const CollectiveDef& def, std::uint32_t axes, std::uint32_t partial_axes) const {
    if (!def.several_axes && !std::has_single_bit(axes)) return false;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (!(axes >> axis & 1)) continue;
      if (source().axes[axis].kind != def.from) return false;
      if (def.from == Kind::split && !source().is_minor_most(axis)) return false;
    }
    return def.from != Kind::partial || may_reduce(axes, partial_axes);
  }

  /// The moves of one collective over `axes`: one to each layout that it may leave there.
  void add_moves(const CollectiveDef& def, std::uint32_t axes) {
    ShardingSpec without = source();
    for (int axis = 0; axis < mesh_.num_axes(); ++axis)
      if (axes >> axis & 1) without.axes[axis] = {};
    const int axis = std::countr_zero(axes),
              from_dim = def.from == Kind::split ? source().axes[axis].dim : -1;
    if (def.to == Kind::replicated) add(without, def.kind, axes, from_dim, from_dim);
    for (int dim = 0; dim < graph_.list.rank && def.to == Kind::split; ++dim)
      if (dim != from_dim) add(without.split(axis, dim), def.kind, axes, dim, from_dim);
    if (def.to == Kind::partial)
      for (const Combiner combiner : kCombiners)
        add(without.partial(axis, combiner), def.kind, axes);
  }

  LargestShard part_of(int spec) const { return {bytes_[spec], graph_.list.extents_of(spec)}; }

  /// Nothing if the graph lacks the spec, or if the options forbid the step.
  void add(const ShardingSpec& spec, CollectiveKind kind, std::uint32_t axes, int dim = -1,
           int from_dim = -1) {
    const int to = find(graph_, spec);
    if (to < 0) return;
    std::array<int, kMaxMeshAxes> list{};
    std::size_t n = 0;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (axes >> axis & 1) list[n++] = axis;
    }
    const StepBytes bytes =
        step_bytes(kind, dim, from_dim, mesh_.size(list[0]), part_of(from_), part_of(to));
    const double seconds = seconds_of(kind, std::span(list.data(), n), bytes, mesh_, model_);
    if (std::isfinite(seconds))
      graph_.moves.push_back({seconds, from_, to, kind, static_cast<std::uint8_t>(axes),
                              static_cast<std::int16_t>(dim), static_cast<std::int16_t>(from_dim)});
  }

  SpecGraph& graph_;
  const DeviceMesh& mesh_;
  const ReshardModel& model_;
  std::vector<double> bytes_;  ///< of the largest shard, per spec
  int from_ = 0;
};

}  // namespace

double step_seconds(const TensorType& type, const ShardingSpec& from, const ReshardStep& step,
                    const DeviceMesh& mesh, const ReshardModel& model) {
  return seconds_of(step.kind, step.axes, step_bytes(type, from, step, mesh), mesh, model);
}

double step_sent_bytes(const TensorType& type, const ShardingSpec& from, const ReshardStep& step,
                       const DeviceMesh& mesh) {
  if (!exchanges(step.kind)) return 0;
  int devices = 1;
  for (int axis : step.axes) devices *= mesh.size(axis);
  return collective_sent_bytes(step.kind, step_bytes(type, from, step, mesh).collective, devices);
}

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
