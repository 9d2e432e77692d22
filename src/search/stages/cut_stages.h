#pragma once
/// Cuts the graph of a step into those of its stages.
#include <map>
#include <string>
#include <vector>

#include "alpa/plan/pipeline_plan.h"

namespace alpa {

/// Batch dimensions of a stage's boundary inputs, by name, of those that have one.
using BoundaryBatchDims = std::map<std::string, int>;

/// Fills the graphs of `stages`, whose layers together are those of `graph`; a single stage is the
/// whole graph. Returns what only the whole graph tells of each.
std::vector<BoundaryBatchDims> cut_into_stages(const Graph& graph, std::vector<StagePlan>& stages);

/// The plan of a step on one mesh.
Plan plan_of_one_stage(const Graph& graph, ShardingPlan sharding);

/// Stages with the layers of these, without graphs and plans.
template <class Stage>
std::vector<StagePlan> stages_with_layers_of(const std::vector<Stage>& others) {
  std::vector<StagePlan> stages(others.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].first_layer = others[s].first_layer;
    stages[s].last_layer = others[s].last_layer;
  }
  return stages;
}

}  // namespace alpa
