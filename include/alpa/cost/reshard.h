#pragma once
/// Resharding: from one ShardingSpec of a value to another, as the cheapest sequence of collectives and local steps (Dijkstra over
/// specs). The sequence priced here is the one the partitioner emits.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "alpa/base/shape.h"
#include "alpa/cost/collective.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa {

enum class ReshardKind : std::uint8_t {
  all_reduce,      ///< partial → replicated on `axes`
  reduce_scatter,  ///< partial → split `dim` (as its minor-most axis) on one axis
  all_gather,      ///< split → replicated on one axis (the minor-most of its dimension)
  all_to_all,      ///< split dimension `from_dim` → split `dim` on one axis
  slice,           ///< replicated → split `dim` on one axis, local
  to_partial,      ///< replicated → partial on one axis: the identity of the combiner on all but coordinate 0, local
};

/// "all_reduce", …, "slice", "to_partial"
std::string_view name_of(ReshardKind kind);

struct ReshardStep {
  ReshardKind kind;
  std::vector<int> axes;   ///< mesh axes; several only for all_reduce
  int dim = -1;            ///< see ReshardKind
  int from_dim = -1;
  ShardingSpec to;         ///< spec after this step
  double seconds = 0;

  bool operator==(const ReshardStep&) const = default;
};

struct ReshardPath {
  std::vector<ReshardStep> steps;
  double seconds = 0;
};

struct ReshardModel {
  CollectiveOptions collectives;
  double memory_bytes_per_second = 0;  ///< of local steps (read + write); 0: free
  double launch_seconds = 0;           ///< per step
};

/// Specs a value of this type may have on the mesh: every assignment of axes to {replicated, a dimension, partial sum or max if
/// `partials` says so}, both orders where two axes share a dimension. Dimensions smaller than the axis are not split over it.
std::vector<ShardingSpec> all_specs(const TensorType& type, const DeviceMesh& mesh, std::uint32_t partials);
inline constexpr std::uint32_t kNoPartials = 0, kPartialSum = 1, kPartialMax = 2;

/// Shortest path, or nothing if `to` cannot be reached (never to partial of a combiner from partial of another; forbidden moves).
/// Never gathers or reduces more than needed for the price model given; empty path if equal.
std::optional<ReshardPath> find_reshard(const TensorType& type, const ShardingSpec& from, const ShardingSpec& to, const DeviceMesh& mesh,
                                        const ReshardModel& model);

/// Seconds between every pair of `from` x `to` (row-major), infinity where impossible; one search per source.
std::vector<double> reshard_seconds(const TensorType& type, const std::vector<ShardingSpec>& from, const std::vector<ShardingSpec>& to,
                                    const DeviceMesh& mesh, const ReshardModel& model);

}  // namespace alpa
