// src/compile/remat_by_stage.cc — searches for stages that keep, or compute again
#include "remat_by_stage.h"

#include <algorithm>
#include <set>

#include "trace.h"

namespace alpa {
namespace {

/// Numbers of the layers that these stages of `graph` compute again.
std::vector<int> layers_of_stages(const FoundStages& found, const Graph& graph) {
  std::set<int> layers;
  for (const Node& node : graph.nodes)
    for (std::size_t s = 0; node.again && s < found.graphs.size(); ++s) {
      const inter_op::Stage& stage = found.partition.stages[s];
      if (found.graphs[s] == 0 && stage.first_layer <= node.layer && node.layer <= stage.last_layer)
        layers.insert(node.remat);
    }
  return {layers.begin(), layers.end()};
}

/// The stages as somebody would give them.
MethodOptions with_stages(MethodOptions method, const FoundStages& found) {
  ManualStages stages;
  for (std::size_t s = 0; s < found.plans.size(); ++s) {
    const inter_op::Stage& stage = found.partition.stages[s];
    const DeviceMesh& mesh = found.plans[s]->plan.mesh;
    std::vector<int>& layers = stages.layers.emplace_back();
    for (int layer = stage.first_layer; layer <= stage.last_layer; ++layer) layers.push_back(layer);
    stages.devices.push_back(mesh.num_devices());
    std::vector<int>& shape = stages.mesh_shapes.emplace_back();
    for (int axis = 0; axis < mesh.num_axes(); ++axis) shape.push_back(mesh.size(axis));
  }
  method.options.schedule = schedules_of(method.options)[found.schedule];
  method.options.stages = std::move(stages);
  return method;
}

}  // namespace

std::unique_ptr<RematByStage> remat_by_stage(const RecomputingSearch& all, const Cluster& cluster,
                                             std::int64_t budget, double work_seconds) {
  const PlanningWatch tracing;
  const Graph kept = trace_like(all.graph, with_remat(all.step, {}), all.num_micro_batches);
  StagePlanner keeping(kept, all.method, cluster, TraceSeconds(tracing),
                       all.method.watch.work.seconds());
  const std::optional<FoundStages> found = all.search.mixed_with(
      keeping.search(budget), work_seconds - tracing.work.seconds(), all.method.clock_left());
  if (!found) return nullptr;
  const TrainingStep step = with_remat(all.step, layers_of_stages(*found, all.graph));
  auto result = std::make_unique<RematByStage>(RematByStage{
      .variant = {step, all.num_micro_batches, true},
      .method = with_stages(all.method, *found),
      .graph = trace_like(all.graph, step, all.num_micro_batches),
      .planner = nullptr,
  });
  result->planner = std::make_shared<StagePlanner>(result->graph, result->method, cluster,
                                                   TraceSeconds(), all.method.watch.work.seconds());
  result->planner->set_plans(found->plans);
  return result;
}

}  // namespace alpa
