#pragma once
/// From strategies to a plan: the specs of all values and the reshardings between them; and back to
/// a choice of the solver, so that a search can start from a known plan.
#include <functional>
#include <optional>

#include "alpa/plan/sharding_plan.h"
#include "src/plan/cost/reshard.h"
#include "src/search/program/instance.h"

namespace alpa::intra_op {

/// The plan that follows from the solver's choice: specs of all values, and one resharding per
/// value and spec wanted (several if the choice makes a copy several times). Its cost and
/// statistics are left empty.
ShardingPlan assemble_plan(const Graph& graph, const SearchSpace& space, const Instance& instance,
                           const std::vector<int>& choice, const DeviceMesh& mesh,
                           cost::ReshardPrices& prices);

/// The plan in which nodes have these strategies: every resharding that they need, once per value,
/// phase and spec, and once per step where that is possible. The rest is left empty.
ShardingPlan plan_of_strategies(const GraphFacts& facts, const DeviceMesh& mesh,
                                std::vector<Strategy> strategies, cost::ReshardPrices& prices);

/// Which of several copies of a value in one spec and phase a use reads, and whether that copy is
/// made once per step.
struct ChosenCopy {
  int number = 0;
  bool once = false;
};
using ChooseCopy = std::function<ChosenCopy(int value, const Use&, const ShardingSpec& wanted)>;

/// The same with copies of choice.
ShardingPlan plan_of_strategies(const GraphFacts& facts, const DeviceMesh& mesh,
                                std::vector<Strategy> strategies, cost::ReshardPrices& prices,
                                const ChooseCopy& choose);

/// The choice of the instance's nodes that represents `plan`, made on the same mesh: its
/// strategies, and the specs and copies that follow. Nothing if the search space lacks one of the
/// strategies, as happens to plans of other restrictions.
std::optional<std::vector<int>> choice_of(const ShardingPlan& plan, const Graph& graph,
                                          const SearchSpace& space, const Instance& instance);

/// Into the order in which plans have their reshardings.
void sort_by_first_use(std::vector<PlannedReshard>& reshards);

}  // namespace alpa::intra_op
