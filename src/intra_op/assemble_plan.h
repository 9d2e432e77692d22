#pragma once
#include "alpa/intra_op/plan.h"
#include "search_space.h"

namespace alpa {

/// The plan that follows from one strategy per node (`choice`: indices into the nodes' choices): specs of
/// all values, and one resharding per value and spec wanted. Its cost and statistics are left empty.
ShardingPlan assemble_plan(const Graph& graph, const SearchSpace& space, const std::vector<int>& choice,
                           const DeviceMesh& mesh, const ReshardModel& model);

}  // namespace alpa
