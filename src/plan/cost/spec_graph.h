#pragma once
/// The graph that resharding searches: the specs of one value on one mesh, and every single step
/// between two of them. Invariants: specs are distinct and start with the replicated one; each spec
/// has at most one combiner; `moves` are sorted by their source. Immutable after construction.
#include <cstdint>
#include <span>
#include <vector>

#include "src/plan/cost/reshard.h"

namespace alpa::cost {

/// Specs with their combiners and the extents of their largest shard.
struct SpecList {
  int rank = 0;
  std::vector<ShardingSpec> specs;
  std::vector<std::uint32_t> partials;  ///< per spec: 0 or `partials_of` its combiner
  /// rank numbers per spec: the nominal chunk of every dimension
  std::vector<std::int64_t> extents;

  const std::int64_t* extents_of(int spec) const {
    return extents.data() + static_cast<std::ptrdiff_t>(spec) * rank;
  }
};

/// Specs that `enumerate_specs` produces beyond splits into at most as many parts as there are
/// elements.
struct SpecLimits {
  std::uint32_t partials = 0;   ///< set of combiners
  std::uint32_t unit_axes = 0;  ///< bits of axes of size 1 that may split or be partial
  bool more_parts_than_elements = false;
  bool operator==(const SpecLimits&) const = default;
};

/// `limits` widened to hold `specs`. Throws Bug if one of them is not a spec
/// of this type on this mesh.
SpecLimits limits_for(const TensorType& type, std::span<const ShardingSpec> specs,
                      const DeviceMesh& mesh, SpecLimits limits = {});

/// Every spec of `type` on `mesh` within the limits, each once, the replicated one first.
SpecList enumerate_specs(const TensorType& type, const DeviceMesh& mesh, const SpecLimits& limits);

struct Move {
  double seconds;  ///< finite, not negative
  int from, to;    ///< indices of specs
  CollectiveKind kind;
  std::uint8_t axes;  ///< bits of mesh axes
  std::int16_t dim, from_dim;
};

struct SpecGraph {
  SpecList list;
  std::vector<std::uint64_t> codes;  ///< of the specs, ascending
  std::vector<int> by_code;          ///< their indices
  std::vector<Move> moves;
  std::vector<int> first_move;  ///< of each spec, and one past the last

  /// Index of a spec. Throws Bug if the graph does not hold it.
  int index(const ShardingSpec& spec) const;
};

/// The graph of all specs within the limits.
SpecGraph spec_graph(const TensorType& type, const SpecLimits& limits, const DeviceMesh& mesh,
                     const ReshardModel& model);

}  // namespace alpa::cost
