#pragma once
/// Layouts, strategies and updates of a plan in words.
#include <string>

#include "alpa/intra_op/plan.h"

namespace alpa::intra_op {

/// "reduce_scatter over x, then all_gather over y".
std::string path_text(const ReshardPath& path, const DeviceMesh& mesh);

/// "columns of the result split over y" for the factors of a strategy.
std::string strategy_text(const Rule& rule, const Strategy& strategy, const DeviceMesh& mesh);

/// How the update of state `input` reaches it: "updated in place, each device its part".
std::string update_text(const ShardingPlan& plan, const Graph& graph, const Input& input);

}  // namespace alpa::intra_op
