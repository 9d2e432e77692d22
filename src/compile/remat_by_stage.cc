// src/compile/remat_by_stage.cc — searches for stages that keep, or compute again
#include "remat_by_stage.h"

#include <algorithm>
#include <set>

#include "trace.h"

namespace alpa {
namespace {

/// Numbers of the layers that these stages compute again: those with ranges of graph `number`,
/// which is `again`.
std::vector<int> recomputed_by(const FoundStages& found, const Graph& again, int number) {
  std::set<int> layers;
  for (const Node& node : again.nodes)
    for (std::size_t s = 0; node.again && s < found.graphs.size(); ++s) {
      const inter_op::Stage& stage = found.partition.stages[s];
      if (found.graphs[s] == number && stage.first_layer <= node.layer &&
          node.layer <= stage.last_layer)
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

std::unique_ptr<RematByStage> remat_by_stage(const VariantSearch& of,
                                             const std::vector<int>& layers, const Cluster& cluster,
                                             std::int64_t budget, double work_seconds) {
  const PlanningWatch tracing;
  const auto traced = [&](const TrainingStep& step) {
    return trace_like(of.graph, step, of.variant.num_micro_batches);
  };
  const bool recomputes = of.variant.recomputes;
  const Graph other = traced(with_remat(of.step, recomputes ? std::vector<int>() : layers));
  StagePlanner planner(other, of.method, cluster, TraceSeconds(tracing),
                       of.method.watch.work.seconds());
  const std::optional<FoundStages> found = of.search.mixed_with(
      planner.search(budget), work_seconds - tracing.work.seconds(), of.method.clock_left());
  if (!found) return nullptr;
  const TrainingStep step = with_remat(
      of.step, recomputes ? recomputed_by(*found, of.graph, 0) : recomputed_by(*found, other, 1));
  auto result = std::make_unique<RematByStage>(
      RematByStage{step, with_stages(of.method, *found), traced(step), nullptr, found->seconds});
  result->planner = std::make_shared<StagePlanner>(result->graph, result->method, cluster,
                                                   TraceSeconds(), of.method.watch.work.seconds());
  result->planner->set_plans(found->plans);
  return result;
}

}  // namespace alpa
