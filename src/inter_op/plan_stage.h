#pragma once
/// Plans one stage of a pipeline within the memory of its devices.
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/intra_op/search/auto_shard.h"
#include "src/intra_op/space/planning_cache.h"

namespace alpa {

/// What stages are planned with.
struct PlanningContext {
  const cost::CostModel& model;
  const intra_op::AutoShardOptions& options;  ///< with the time limit
  intra_op::PlanningCache& cache;
};

/// Bytes of a device for the stage: the plan's peak, and what a forward run keeps for its backward
/// run, once more for every further micro-batch in flight.
struct CountedBytes {
  std::int64_t peak = 0, kept = 0;
  std::int64_t with(int in_flight) const { return peak + (in_flight - 1) * kept; }
};

/// Counted as values are live, without what lowering adds: padding, scratch, gaps, messages.
CountedBytes counted_bytes(const Graph& graph, const ShardingPlan& plan);

/// What a stage may take.
struct StageLimit {
  std::int64_t bytes = 0;  ///< per device, as `counted_bytes` counts them
  int in_flight = 1;       ///< micro-batches that its schedule keeps
};

/// The best plan of a stage, `graph`, that `search` finds, if that fits the limit; else one with
/// less memory that does. Throws intra_op::OverBudget if none is found.
ShardingPlan plan_stage(const Graph& graph, intra_op::AutoSharding& search, const StageLimit& limit,
                        std::string_view method);

/// The same by a search on these meshes alone.
ShardingPlan plan_stage(const Graph& graph, const std::vector<DeviceMesh>& meshes,
                        const StageLimit& limit, const PlanningContext& planning);

}  // namespace alpa
