#pragma once
/// Resharding: the cheapest sequence of collectives and local steps from one ShardingSpec of a
/// value to another (Dijkstra over specs). The partitioner emits exactly the sequence priced here.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alpa/base/shape.h"
#include "alpa/mesh/collective.h"
#include "alpa/mesh/device_mesh.h"
#include "alpa/mesh/sharding_spec.h"
#include "src/plan/cost/collective.h"

template <>
struct std::hash<alpa::TensorType> {
  std::size_t operator()(const alpa::TensorType& type) const noexcept {
    std::size_t hash = static_cast<std::size_t>(type.dtype) + 1;
    for (std::int64_t extent : type.shape)
      hash = hash * 0x9e3779b97f4a7c15 + static_cast<std::size_t>(extent);
    return hash;
  }
};

namespace alpa::cost {

struct ReshardModel {
  CollectiveOptions collectives;
  /// for local steps, which read and write their result once; 0: free
  double memory_bytes_per_second = 0;
  /// per step; steps over an axis of size 1 do nothing and cost nothing
  double launch_seconds = 0;
  /// Partial sums over several axes are added over the last of them first, or over all at once: as
  /// along one tree over the devices in the order of their parts.
  bool fixed_sums = false;

  bool operator==(const ReshardModel&) const = default;
};

/// All specs of a value of this type on the mesh: every assignment of axes to {replicated, a
/// dimension, partial if `partials` allows the combiner}, in every order where axes share a
/// dimension, with at most one combiner. No dimension is split into more parts than it has
/// elements; axes of size 1 are replicated. The replicated spec comes first.
std::vector<ShardingSpec> all_specs(const TensorType& type, const DeviceMesh& mesh,
                                    std::uint32_t partials);
/// Sets of combiners.
constexpr std::uint32_t partials_of(Combiner combiner) {
  return 1u << static_cast<unsigned>(combiner);
}
inline constexpr std::uint32_t kNoPartials = 0, kPartialSum = partials_of(Combiner::sum),
                               kPartialMax = partials_of(Combiner::max),
                               kPartialLogSumExp = partials_of(Combiner::log_sum_exp);

/// Cheapest path; nullopt if `to` cannot be reached (partial results never change their
/// combiner, and options may forbid collectives). Empty if the specs are equal. The path
/// reduces only over axes that are partial in `from`, so zeros made by to_partial are never
/// sent. Ties: fewest steps, then the order of CollectiveKind, axes and dimensions of the last
/// steps. A collective over uneven parts is charged n times its largest part: bytes as in
/// collective.h, rounded up.
std::optional<ReshardPath> find_reshard(const TensorType& type, const ShardingSpec& from,
                                        const ShardingSpec& to, const DeviceMesh& mesh,
                                        const ReshardModel& model);

/// Seconds of one run of a step from spec `from`.
double step_seconds(const TensorType& type, const ShardingSpec& from, const ReshardStep& step,
                    const DeviceMesh& mesh, const ReshardModel& model);

/// Bytes that one device sends in it.
double step_sent_bytes(const TensorType& type, const ShardingSpec& from, const ReshardStep& step,
                       const DeviceMesh& mesh);

/// A cache of `find_reshard` for one mesh and model: the specs of a type and the steps between
/// them are listed once and searched once per source. Numbers and paths are the same, to the bit.
/// Thread rule: one thread at a time.
class ReshardPrices {
 public:
  ReshardPrices(const DeviceMesh& mesh, const ReshardModel& model);
  ~ReshardPrices();
  ReshardPrices(const ReshardPrices&) = delete;
  ReshardPrices& operator=(const ReshardPrices&) = delete;

  /// Seconds between every pair of `from` x `to` (row-major), infinity where impossible; one
  /// search per source. Each number equals that of find_reshard, to the bit. The triangle
  /// inequality holds among specs of one combiner, if the intermediate spec is partial only over
  /// axes over which the first spec is partial.
  std::vector<double> seconds(const TensorType& type, const std::vector<ShardingSpec>& from,
                              const std::vector<ShardingSpec>& to);
  /// As `find_reshard`; valid until `seconds` or `path` is called for the same type.
  const std::optional<ReshardPath>& path(const TensorType& type, const ShardingSpec& from,
                                         const ShardingSpec& to);
  /// Number of searches so far.
  int searches() const { return searches_; }

 private:
  struct OfType;
  struct Types;
  OfType& of(const TensorType& type, std::span<const ShardingSpec> from,
             std::span<const ShardingSpec> to);

  const DeviceMesh mesh_;
  const ReshardModel model_;
  std::unique_ptr<Types> types_;
  int searches_ = 0;
};

}  // namespace alpa::cost
