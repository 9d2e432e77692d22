#pragma once
/// Resharding: from one ShardingSpec of a value to another, as the cheapest sequence of collectives and
/// local steps (Dijkstra over specs). The sequence priced here is the one the partitioner emits.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alpa/base/shape.h"
#include "alpa/cost/collective.h"
#include "alpa/ir/reshard_kind.h"
#include "alpa/mesh/device_mesh.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa {

/// The collective that a step of this kind is; nothing for local steps.
std::optional<CollectiveKind> collective_of(ReshardKind kind);

struct ReshardStep {
  ReshardKind kind;
  std::vector<int> axes;  ///< mesh axes, ascending; several only for all_reduce
  int dim = -1;           ///< see ReshardKind
  int from_dim = -1;
  ShardingSpec to;  ///< spec after this step
  double seconds = 0;

  bool operator==(const ReshardStep&) const = default;
};

struct ReshardPath {
  std::vector<ReshardStep> steps;
  double seconds = 0;
};

struct ReshardModel {
  CollectiveOptions collectives;
  double memory_bytes_per_second = 0;  ///< of local steps, which read and write their result once; 0: free
  double launch_seconds = 0;  ///< per step; steps over an axis of size 1 do nothing and cost nothing

  bool operator==(const ReshardModel&) const = default;
};

/// Specs a value of this type may have on the mesh: every assignment of axes to {replicated, a dimension,
/// partial sum or max if `partials` says so}, every order where axes share a dimension, one combiner at
/// most. No dimension is split into more parts than it has elements, and axes of size 1 do nothing. The
/// replicated spec comes first.
std::vector<ShardingSpec> all_specs(const TensorType& type, const DeviceMesh& mesh, std::uint32_t partials);
inline constexpr std::uint32_t kNoPartials = 0, kPartialSum = 1, kPartialMax = 2;

/// Shortest path, or nothing if `to` cannot be reached (never to partial of a combiner from partial of
/// another; forbidden moves). It reduces only over axes that are partial in `from`: zeros made on the way
/// are never sent. Empty if equal. Among equally cheap paths the one with the fewest steps, then by the
/// order of ReshardKind, axes and dimensions of the last steps. A collective over uneven parts is charged n
/// times its largest part: bytes as in collective.h, rounded up.
std::optional<ReshardPath> find_reshard(const TensorType& type, const ShardingSpec& from,
                                        const ShardingSpec& to, const DeviceMesh& mesh,
                                        const ReshardModel& model);

/// Seconds between every pair of `from` x `to` (row-major), infinity where impossible; one search per
/// source. Obeys the triangle inequality among specs of one combiner, wherever the spec between is partial
/// over no axis that the first is not; each number is that of find_reshard, to the bit, whatever is asked
/// beside it.
std::vector<double> reshard_seconds(const TensorType& type, const std::vector<ShardingSpec>& from,
                                    const std::vector<ShardingSpec>& to, const DeviceMesh& mesh,
                                    const ReshardModel& model);

/// The same of one mesh and model, kept: the layouts of a type and the steps between them are listed once,
/// and searched once per source. Numbers and paths are those of the functions above, to the bit. One thread
/// at a time.
class ReshardPrices {
 public:
  ReshardPrices(const DeviceMesh& mesh, const ReshardModel& model);
  ~ReshardPrices();
  ReshardPrices(const ReshardPrices&) = delete;
  ReshardPrices& operator=(const ReshardPrices&) = delete;

  /// As `reshard_seconds`.
  std::vector<double> seconds(const TensorType& type, const std::vector<ShardingSpec>& from,
                              const std::vector<ShardingSpec>& to);
  /// As `find_reshard`; valid until `seconds` or `path` is called for the same type.
  const std::optional<ReshardPath>& path(const TensorType& type, const ShardingSpec& from,
                                         const ShardingSpec& to);
  /// Searches so far.
  int searches() const { return searches_; }

 private:
  struct OfType;
  struct Hash;
  struct Types;
  OfType& of(const TensorType& type, std::span<const ShardingSpec> from, std::span<const ShardingSpec> to);

  const DeviceMesh mesh_;
  const ReshardModel model_;
  std::unique_ptr<Types> types_;
  int searches_ = 0;
};

}  // namespace alpa
