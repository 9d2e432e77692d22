// src/pipeline_planning.cc — plans the stages of a pipelined step
#include "pipeline_planning.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "alpa/base/error.h"
#include "auto_stages.h"
#include "src/base/timing.h"
#include "src/cost/cost_model.h"
#include "src/cost/transfer.h"
#include "src/inter_op/cluster_layers.h"
#include "src/intra_op/auto_shard.h"
#include "src/intra_op/follow.h"
#include "src/intra_op/planning_cache.h"
#include "src/ir/input.h"
#include "src/ir/stages.h"
#include "src/ir/subgraph.h"
#include "src/spmd/program.h"
#include "stage_plan.h"

namespace alpa {
namespace {

/// A stage before it is planned.
struct StageRequest {
  int first_layer = 0, last_layer = 0;
  std::vector<DeviceMesh> meshes;  ///< logical shapes to choose from
};

/// Every layer once, in order. Throws Error otherwise.
void check_layers(const std::vector<std::vector<int>>& stages, int num_layers) {
  int next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    require(!stages[s].empty(), "ManualStages: stage {} has no layers; give at least one", s);
    for (int layer : stages[s])
      require(layer == next++,
              "ManualStages: stage {} has layer {} where layer {} comes next; give the layers 0 to "
              "{} in order, each once",
              s, layer, next - 1, num_layers - 1);
  }
  require(next == num_layers,
          "ManualStages: the stages have {} layers but the step has {}; give each of the layers 0 "
          "to {} to a stage",
          next, num_layers, num_layers - 1);
}

/// Equal numbers of devices. Throws Error if there are none.
std::vector<int> equal_devices(int stages, const Cluster& cluster) {
  require(
      cluster.num_devices() % stages == 0,
      "{} stages cannot have equally many of {} devices; give ManualStages::devices, or another "
      "number of stages",
      stages, cluster.num_devices());
  return std::vector<int>(stages, cluster.num_devices() / stages);
}

ManualStages manual(const UniformStages& uniform, int num_layers, const Cluster& cluster) {
  require(uniform.count >= 1 && uniform.count <= num_layers,
          "UniformStages: {} stages of {} layers; give at least 1 and at most as many as layers "
          "(mark_pipeline_boundary begins a layer)",
          uniform.count, num_layers);
  ManualStages stages{.layers = {}, .devices = equal_devices(uniform.count, cluster)};
  stages.layers.resize(uniform.count);
  for (int layer = 0; layer < num_layers; ++layer)
    stages.layers[layer * uniform.count / num_layers].push_back(layer);
  return stages;
}

ManualStages manual(ManualStages stages, int num_layers, const Cluster& cluster) {
  check_layers(stages.layers, num_layers);
  const int count = static_cast<int>(stages.layers.size());
  if (stages.devices.empty()) stages.devices = equal_devices(count, cluster);
  require(static_cast<int>(stages.devices.size()) == count,
          "ManualStages: devices of {} stages but layers of {}; give one number per stage",
          stages.devices.size(), count);
  require(stages.mesh_shapes.empty() || static_cast<int>(stages.mesh_shapes.size()) == count,
          "ManualStages: mesh shapes of {} stages but layers of {}; give one shape per stage, or "
          "none",
          stages.mesh_shapes.size(), count);
  for (int devices : stages.devices)
    require(devices >= 1, "ManualStages: a stage on {} devices; give at least 1", devices);
  const int total = std::accumulate(stages.devices.begin(), stages.devices.end(), 0);
  require(total == cluster.num_devices(),
          "ManualStages: the stages have {} devices but the cluster has {}; give each device to "
          "one stage",
          total, cluster.num_devices());
  return stages;
}

/// Device ids of the stages: in the order of stages where that makes parts of hosts and whole
/// hosts, or else where they find a place. Throws Error if they do not tile the cluster.
std::vector<std::vector<int>> devices_of(const std::vector<inter_op::Submesh>& submeshes,
                                         const inter_op::Submesh& cluster) {
  std::vector<std::vector<int>> devices;
  int first = 0;
  for (const inter_op::Submesh& submesh : submeshes) {
    const int offset = first % cluster.devices;
    if (submesh.hosts > 1 ? offset != 0 : offset + submesh.devices > cluster.devices)
      return inter_op::place(cluster, submeshes);
    devices.emplace_back(submesh.num_devices());
    std::iota(devices.back().begin(), devices.back().end(), first);
    first += submesh.num_devices();
  }
  return devices;
}

std::vector<StageRequest> requests_of(const ManualStages& stages, const Cluster& cluster) {
  std::vector<inter_op::Submesh> submeshes;
  for (int devices : stages.devices) submeshes.push_back(submesh_of(cluster, devices));
  const std::vector<std::vector<int>> devices =
      devices_of(submeshes, {cluster.num_hosts, cluster.devices_per_host});
  std::vector<StageRequest> requests;
  for (std::size_t s = 0; s < stages.layers.size(); ++s) {
    const std::vector<int> shape =
        stages.mesh_shapes.empty() ? std::vector<int>{} : stages.mesh_shapes[s];
    requests.push_back({stages.layers[s].front(), stages.layers[s].back(),
                        logical_meshes(cluster, submeshes[s], devices[s], shape)});
  }
  return requests;
}

/// Per layer its stage.
std::vector<int> stages_of_layers(const std::vector<StageRequest>& requests) {
  std::vector<int> stages;
  for (int s = 0; s < static_cast<int>(requests.size()); ++s)
    stages.resize(requests[s].last_layer + 1, s);
  return stages;
}

/// `graph`, traced with a layer per node, with these layers of its forward nodes, and backward nodes
/// in the layers of theirs.
Graph with_layers_of_forward_nodes(Graph graph, const std::vector<int>& layers) {
  std::map<int, int> layer_of;  // by the number of a forward node
  for (std::size_t n = 0; n < layers.size(); ++n)
    if (layers[n] >= 0) layer_of[graph.nodes[n].layer] = layers[n];
  for (Node& node : graph.nodes) {
    const auto found = layer_of.find(node.layer);
    node.layer = found == layer_of.end() ? -1 : found->second;
  }
  return graph;
}

}  // namespace

Graph traced_in_layers(const TrainingStep& step, const MethodOptions& method) {
  const int micro_batches = method.options.num_micro_batches;
  const auto* automatic = std::get_if<AutoLayers>(&method.pipeline.layers);
  if (method.kind != MethodKind::pipeline || !automatic) return step.trace(micro_batches);
  const Graph graph = step.trace({micro_batches, /*per_node=*/true});
  return with_layers_of_forward_nodes(
      graph, inter_op::cluster_layers(graph, automatic->count, automatic->tolerance));
}

Graph traced_in_layers_of(const Graph& leader, const TrainingStep& step, int num_micro_batches) {
  const Graph graph = step.trace({num_micro_batches, /*per_node=*/true});
  using Key = std::tuple<const OpDef*, std::string, int>;  // operator, name, how many came before
  const auto for_each_forward = [](const Graph& g, auto&& visit) {
    std::map<std::pair<const OpDef*, std::string>, int> counts;
    for (std::size_t n = 0; n < g.nodes.size(); ++n)
      if (const Node& node = g.nodes[n]; node.region == Region::forward && node.op != &ops::input)
        visit(n, Key{node.op, node.name, counts[{node.op, node.name}]++});
  };
  std::map<Key, int> known;
  for_each_forward(leader,
                   [&](std::size_t n, const Key& key) { known[key] = leader.nodes[n].layer; });
  std::vector<int> layers(graph.nodes.size(), -1);
  for_each_forward(graph, [&](std::size_t n, const Key& key) {
    if (const auto found = known.find(key); found != known.end()) layers[n] = found->second;
  });
  return with_layers_of_forward_nodes(graph, layers);
}

std::vector<StagePlan> plan_stages(const Graph& graph, const MethodOptions& method,
                                   const Cluster& cluster, double trace_seconds) {
  const cost::CostModel model = cost::CostModel::of(cluster);
  const Stopwatch watch;
  intra_op::AutoShardOptions options = search_options(method, trace_seconds);
  options.whole_boundary_inputs = true;
  intra_op::PlanningCache cache;
  const auto choose = [&](const auto& stages) {
    if constexpr (std::is_same_v<decltype(stages), const AutoStages&>)
      return auto_stages(graph, cluster, memory_budget(method, cluster), {model, options, cache});
    else
      return manual(stages, num_layers(graph), cluster);
  };
  const std::vector<StageRequest> requests =
      requests_of(std::visit(choose, method.pipeline.stages), cluster);
  const Graph staged = with_stages(graph, stages_of_layers(requests));
  std::vector<StagePlan> stages;
  for (int s = 0; s < static_cast<int>(requests.size()); ++s) {
    const auto [first, last, meshes] = requests[s];
    StagePlan stage{.first_layer = first, .last_layer = last};
    stage.graph = subgraph(staged, s, s).graph;
    const double left = options.time_limit_seconds - watch.seconds();
    intra_op::AutoShardOptions share = options;
    share.time_limit_seconds = left / static_cast<double>(requests.size() - s);
    stage.plan = intra_op::auto_shard(stage.graph, meshes, model, share, &cache);
    set_seconds(model, stage);
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::vector<StagePlan> follow_stages(const std::vector<StagePlan>& leader, const Graph& graph,
                                     const cost::CostModel& model) {
  std::vector<int> stage_of_layer;
  for (int s = 0; s < static_cast<int>(leader.size()); ++s)
    stage_of_layer.resize(leader[s].last_layer + 1, s);
  const Graph staged = with_stages(graph, stage_of_layer);
  std::vector<StagePlan> stages;
  for (int s = 0; s < static_cast<int>(leader.size()); ++s) {
    StagePlan stage{.first_layer = leader[s].first_layer, .last_layer = leader[s].last_layer};
    stage.graph = subgraph(staged, s, s).graph;
    stage.plan = intra_op::follow({leader[s].graph, leader[s].plan}, stage.graph, model);
    set_seconds(model, stage);
    stages.push_back(std::move(stage));
  }
  return stages;
}

void add_transfer_seconds(const spmd::SpmdProgram& program, const Cluster& cluster,
                          std::vector<StagePlan>& stages) {
  for (const Node& node : program.graph.nodes) {
    if (!spmd::is_transfer(node)) continue;
    const cost::MeshLayout from = source_of(program, node), to = target_of(program, node);
    const double seconds = cost::transfer_cost(program.graph.type(node.results[0]), from, to,
                                               cost::link_between(cluster, from.mesh, to.mesh))
                               .seconds;
    StagePlan& stage = stages[program.mesh_index(node.results[0])];
    (node.region == Region::apply ? stage.apply_seconds : stage.micro_batch_seconds) += seconds;
  }
}

double pipeline_seconds(const std::vector<StagePlan>& stages, int num_micro_batches) {
  double all = 0, slowest = 0, apply = 0;
  for (const StagePlan& stage : stages) {
    all += stage.micro_batch_seconds;
    slowest = std::max(slowest, stage.micro_batch_seconds);
    apply = std::max(apply, stage.apply_seconds);
  }
  return all + (num_micro_batches - 1) * slowest + apply;
}

pipeline::PipelineSchedule schedule_of(const CompiledStep& step) {
  const int stages = static_cast<int>(step.stages.size());
  if (stages == 0) return {};
  const auto has_gradients =
      std::any_of(step.graph.nodes.begin(), step.graph.nodes.end(),
                  [](const Node& node) { return node.region == Region::backward; });
  return pipeline::make_schedule(has_gradients ? step.schedule : ScheduleKind::inference, stages,
                                 step.graph.num_micro_batches);
}

}  // namespace alpa
