#pragma once
/// Plans one stage of a pipeline within the memory of its devices.
#include <cstdint>
#include <limits>
#include <vector>

#include "src/search/sharding/auto_shard.h"
#include "src/search/space/planning_cache.h"

namespace alpa {

/// Prices, options and cache that stages are planned with.
struct PlanningContext {
  const cost::CostModel& model;
  const intra_op::AutoShardOptions& options;  ///< with the time limit
  intra_op::PlanningCache& cache;
};

inline constexpr std::int64_t kNoByteLimit = std::numeric_limits<std::int64_t>::max();

/// Limits of a stage.
struct StageLimit {
  /// Per device, as intra_op::counted_bytes counts them.
  std::int64_t bytes = kNoByteLimit;
  int in_flight = 1;  ///< micro-batches that its schedule keeps
};

/// The best plan of a stage, `graph`, on any of these meshes that fits the limit. Throws
/// intra_op::OverBudget if none is found.
ShardingPlan plan_stage(const Graph& graph, const std::vector<DeviceMesh>& meshes,
                        const StageLimit& limit, const PlanningContext& planning);

}  // namespace alpa
