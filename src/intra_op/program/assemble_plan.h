#pragma once
/// From strategies to a plan: the specs of all values and the reshardings between them; and back to
/// a choice of the solver, so that a search can start from a known plan.
#include <optional>

#include "alpa/intra_op/plan.h"
#include "src/cost/reshard.h"
#include "src/intra_op/program/instance.h"

namespace alpa::intra_op {

/// The plan that follows from the solver's choice: specs of all values, and one resharding per
/// value and spec wanted (several if the choice makes a copy several times). Its cost and
/// statistics are left empty.
ShardingPlan assemble_plan(const Graph& graph, const SearchSpace& space, const Instance& instance,
                           const std::vector<int>& choice, const DeviceMesh& mesh,
                           cost::ReshardPrices& prices);

/// The plan in which nodes have these strategies: every resharding that they need, once per value,
/// phase and spec. The rest is left empty.
ShardingPlan plan_of_strategies(const GraphFacts& facts, const DeviceMesh& mesh,
                                std::vector<Strategy> strategies, cost::ReshardPrices& prices);

/// The choice of the instance's nodes that represents `plan`, made on the same mesh: its
/// strategies, and the specs and copies that follow. Nothing if the search space lacks one of the
/// strategies, as happens to plans of other restrictions.
std::optional<std::vector<int>> choice_of(const ShardingPlan& plan, const Graph& graph,
                                          const SearchSpace& space, const Instance& instance);

/// Into the order in which plans have their reshardings.
void sort_by_first_use(std::vector<PlannedReshard>& reshards);

}  // namespace alpa::intra_op
