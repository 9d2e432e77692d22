#pragma once
/// A lower bound of a graph's plans on one mesh, without a search for a plan.
#include "src/cost/cost_model.h"
#include "src/intra_op/space/auto_shard_options.h"
#include "src/intra_op/space/planning_cache.h"

namespace alpa::intra_op {

/// Proven: no plan of the graph on the mesh takes fewer seconds per step; infinite: it has none.
/// A few sweeps of the dual bound over the program of the whole (ilp::dual_bound); no time limit
/// and no budget count. Facts about operators go into `cache`.
double quick_bound(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                   const AutoShardOptions& options, PlanningCache& cache);

/// The same from the least that every node and every resharding takes: often half of it, in a
/// fraction of the time.
double least_seconds_on(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                        const AutoShardOptions& options, PlanningCache& cache);

}  // namespace alpa::intra_op
