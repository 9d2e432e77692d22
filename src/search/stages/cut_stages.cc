// src/search/stages/cut_stages.cc — cuts a graph into those of its stages
#include "src/search/stages/cut_stages.h"

#include "src/ir/input.h"
#include "src/ir/stages.h"
#include "src/ir/subgraph.h"
#include "src/plan/facts/batch_factors.h"
#include "src/search/stages/stage_graph.h"

namespace alpa {

std::vector<BoundaryBatchDims> cut_into_stages(const Graph& graph, std::vector<StagePlan>& stages) {
  if (stages.size() == 1) {
    stages.front().graph = graph;
    return {{}};
  }
  std::vector<int> stage_of_layer;
  for (int s = 0; s < static_cast<int>(stages.size()); ++s)
    stage_of_layer.resize(stages[s].last_layer + 1, s);
  const Graph staged = stage_graph(graph, stage_of_layer);
  const std::vector<int> batch_dims = intra_op::batch_dims(staged);
  const LayerCuts cuts(staged);
  std::vector<BoundaryBatchDims> dims(stages.size());
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    Subgraph part = cuts.cut(s, s);
    for (const Input& input : part.graph.inputs)
      if (const int dim = batch_dims[part.values[input.value]];
          input.kind == InputKind::boundary && dim >= 0)
        dims[s][input.name] = dim;
    stages[s].graph = std::move(part.graph);
  }
  return dims;
}

Plan plan_of_one_stage(const Graph& graph, ShardingPlan sharding) {
  Plan plan{.method = sharding.method, .cost = sharding.cost};
  plan.stages.push_back({0, num_layers(graph) - 1, graph, std::move(sharding)});
  return plan;
}

}  // namespace alpa
