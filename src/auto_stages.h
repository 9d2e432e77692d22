#pragma once
/// Finds the stages of a pipeline: plans every range of layers on every part of the cluster, and
/// searches for the best partition (inter_op/stage_search.h).
#include "alpa/mesh/cluster.h"
#include "src/inter_op/stage.h"
#include "src/intra_op/auto_shard.h"
#include "src/intra_op/planning_cache.h"

namespace alpa {

/// What the search plans ranges with.
struct RangePlanning {
  const cost::CostModel& model;
  const intra_op::AutoShardOptions& options;  ///< its time limit is for all ranges together
  intra_op::PlanningCache& cache;
};

/// Stages of `graph`'s layers on `cluster` with the least predicted seconds per step; a single
/// stage is one candidate. Ranges whose graphs are alike are planned once. Ranges that exceed
/// `budget` bytes per device are left out; more micro-batches in flight are counted by what the
/// forward pass keeps for the backward pass. Throws Error if no stages fit.
inter_op::StagePartition auto_stages(const Graph& graph, const Cluster& cluster,
                                     std::int64_t budget, const RangePlanning& planning);

}  // namespace alpa
