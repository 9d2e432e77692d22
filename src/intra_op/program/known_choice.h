#pragma once
/// Turns a plan back into a choice of the solver, so that a search can start from a known plan.
#include <optional>

#include "alpa/intra_op/plan.h"
#include "src/intra_op/program/instance.h"

namespace alpa::intra_op {

/// The choice of the instance's nodes that represents `plan`, made on the same mesh: its
/// strategies, and the specs and copies that follow. Nothing if the search space lacks one of the
/// strategies, as happens to plans of other restrictions.
std::optional<std::vector<int>> choice_of(const ShardingPlan& plan, const Graph& graph,
                                          const SearchSpace& space, const Instance& instance);

}  // namespace alpa::intra_op
