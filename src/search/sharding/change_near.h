#pragma once
/// A plan changed for one operator, where a search of the whole program proves nothing in seconds.
#include <optional>

#include "src/plan/cost/cost_model.h"
#include "src/search/space/auto_shard_options.h"
#include "src/search/space/planning_cache.h"

namespace alpa::intra_op {

/// `known` with the pin of `options`. Nodes around the pinned one are planned again, all others
/// stay; they are more and more, until twice as many change nothing. The cost's bound is that of
/// `known`, as a pin only excludes plans. Nothing if no plan is found so, or if the search space
/// lacks a strategy of `known`. Bytes are not looked at. The same on every machine.
std::optional<ShardingPlan> change_near(const Graph& graph, const ShardingPlan& known,
                                        const cost::CostModel& model,
                                        const AutoShardOptions& options, PlanningCache& cache);

}  // namespace alpa::intra_op
