// src/pipeline_planning.cc — plans the stages of a pipelined step
#include "pipeline_planning.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "alpa/base/error.h"
#include "range_costs.h"
#include "src/base/timing.h"
#include "src/cost/cost_model.h"
#include "src/inter_op/cluster_layers.h"
#include "src/inter_op/given_stages.h"
#include "src/intra_op/facts/batch_factors.h"
#include "src/intra_op/search/auto_shard.h"
#include "src/intra_op/search/follow.h"
#include "src/intra_op/space/planning_cache.h"
#include "src/ir/input.h"
#include "src/ir/layers.h"
#include "src/ir/rule.h"
#include "src/ir/stages.h"
#include "src/ir/subgraph.h"
#include "src/pipeline/schedule.h"
#include "stage_plan.h"

namespace alpa {
namespace {

/// Floating-point operations of a step, forward and backward, per layer.
std::vector<double> flops_of_layers(const Graph& graph) {
  std::vector<double> flops_of(num_layers(graph), 0);
  for (const Node& node : graph.nodes)
    if (node.region != Region::apply && node.op != &ops::input)
      flops_of[std::max(node.layer, 0)] += flops(rule_of(graph, node));
  return flops_of;
}

inter_op::StagePartition given_stages(const UniformStages& uniform, const Graph& graph,
                                      const Cluster& cluster) {
  const int per_part = uniform.stages_per_part;
  require(
      per_part >= 1 && uniform.count % per_part == 0,
      "UniformStages: {} stages, {} on each part of the devices; give a number of stages that is "
      "a multiple of stages_per_part",
      uniform.count, per_part);
  const std::vector<inter_op::Submesh> parts = inter_op::equal_submeshes(
      {cluster.num_hosts, cluster.devices_per_host}, uniform.count / per_part);
  std::vector<inter_op::Submesh> submeshes;
  for (int s = 0; s < uniform.count; ++s) submeshes.push_back(parts[s % parts.size()]);
  return inter_op::uniform_stages(flops_of_layers(graph), submeshes);
}

inter_op::StagePartition given_stages(const ManualStages& manual, const Graph& graph,
                                      const Cluster& cluster) {
  inter_op::GivenStages given;
  given.layers = manual.layers;
  given.logical_shapes = manual.mesh_shapes;
  require(manual.options.empty() || manual.options.size() == manual.layers.size(),
          "ManualStages: options of {} stages, but there are {}; give one for each, or none",
          manual.options.size(), manual.layers.size());
  for (int devices : manual.devices) given.submeshes.push_back(submesh_of(cluster, devices));
  return inter_op::manual_stages(given, num_layers(graph),
                                 {cluster.num_hosts, cluster.devices_per_host});
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

/// `shapes`: per configuration a logical mesh shape; configuration -1 has `usual`. The first
/// `parts` stages have devices of their own; later ones share them in turn.
std::vector<StageRequest> requests_of(const inter_op::StagePartition& partition,
                                      const std::vector<std::vector<int>>& shapes,
                                      const std::vector<int>& usual, int parts,
                                      const Cluster& cluster) {
  std::vector<inter_op::Submesh> submeshes = submeshes_of(partition);
  submeshes.resize(parts);
  const std::vector<std::vector<int>> devices =
      devices_of(submeshes, {cluster.num_hosts, cluster.devices_per_host});
  std::vector<StageRequest> requests;
  for (std::size_t s = 0; s < partition.stages.size(); ++s) {
    const inter_op::Stage& stage = partition.stages[s];
    const std::vector<int> shape = stage.configuration < 0 ? usual : shapes[stage.configuration];
    requests.push_back({stage.first_layer, stage.last_layer,
                        logical_meshes(cluster, stage.submesh, devices[s % parts], shape)});
  }
  return requests;
}

void set_options(const StageOptions& stage, intra_op::AutoShardOptions& search) {
  search.batch_mesh_axis = stage.batch_mesh_axis;
  search.shard_optimizer_state = search.shard_gradients = stage.shard_optimizer_state;
  search.allow_all_gather = stage.allow_all_gather;
  search.allow_all_to_all = stage.allow_all_to_all;
}

/// Logical mesh shapes that stages may have; empty: all.
std::vector<std::vector<int>> allowed_shapes(const AutoStages& automatic,
                                             const ShardParallel& options) {
  if (!options.mesh_shape.empty()) return {options.mesh_shape};
  return automatic.mesh_shapes;
}

/// One stage, and as many equal ones as tile the cluster.
std::vector<inter_op::StagePartition> uniform_partitions(const Graph& graph,
                                                         const Cluster& cluster) {
  const int most = std::min(num_layers(graph), cluster.num_devices());
  std::vector<inter_op::StagePartition> partitions;
  for (int count = 1; count <= most; ++count)
    if (cluster.num_devices() % count == 0 &&
        (cluster.num_hosts % count == 0 || count % cluster.num_hosts == 0))
      partitions.push_back(given_stages(UniformStages{count}, graph, cluster));
  return partitions;
}

/// Parts of the cluster of the sizes in question; the whole cluster is one.
std::vector<inter_op::Submesh> submeshes_of(SubmeshSizes sizes, const inter_op::Submesh& whole) {
  const auto space = sizes == SubmeshSizes::any ? inter_op::SubmeshSpace::any_size
                                                : inter_op::SubmeshSpace::power_of_two;
  std::vector<inter_op::Submesh> submeshes = inter_op::submesh_choices(whole, space);
  if (submeshes.back() != whole) submeshes.push_back(whole);
  return submeshes;
}

StageQuestion question_of(const AutoStages& automatic, const Graph& graph,
                          const MethodOptions& method, const Cluster& cluster,
                          std::int64_t budget) {
  StageQuestion question{graph, cluster};
  question.budget = budget;
  question.submeshes =
      submeshes_of(automatic.submeshes, {cluster.num_hosts, cluster.devices_per_host});
  question.mesh_shapes = allowed_shapes(automatic, method.options);
  question.in_flight = [schedule = method.pipeline.schedule,
                        most_stages = std::min(num_layers(graph), cluster.num_devices()),
                        micro_batches = graph.num_micro_batches](int after) {
    return pipeline::most_in_flight(schedule, after, most_stages, micro_batches);
  };
  question.templates = uniform_partitions(graph, cluster);
  return question;
}

/// Parts of the devices that run several stages each run so many.
int stages_per_part(const PipeshardParallel& pipeline) {
  const auto* uniform = std::get_if<UniformStages>(&pipeline.stages);
  return uniform ? uniform->stages_per_part : 1;
}

/// Throws Error if the method's schedule or layers need other stages.
void check_stages(const PipeshardParallel& pipeline, const Graph& graph) {
  const auto* uniform = std::get_if<UniformStages>(&pipeline.stages);
  const int per_part = stages_per_part(pipeline);
  require((pipeline.schedule == ScheduleKind::interleaved_one_f_one_b) == (per_part > 1),
          "method pipeline: schedule {} with {} stages on each part of the devices; "
          "interleaved_1f1b needs UniformStages with stages_per_part above 1, all others 1",
          name_of(pipeline.schedule), per_part);
  require(num_layers(graph) > 1 || !uniform || uniform->count == 1 ||
              std::holds_alternative<AutoLayers>(pipeline.layers),
          "method pipeline: the model is a single layer, which cannot be cut into {} stages; mark "
          "where layers end with mark_pipeline_boundary, or give .layers = AutoLayers{{}}",
          uniform ? uniform->count : 0);
}

/// Requests for stages on their devices.
std::vector<StageRequest> requests_for(const inter_op::StagePartition& partition,
                                       const MethodOptions& method, const Cluster& cluster) {
  const PipeshardParallel& pipeline = method.pipeline;
  const auto* manual = std::get_if<ManualStages>(&pipeline.stages);
  const auto* automatic = std::get_if<AutoStages>(&pipeline.stages);
  const int parts = static_cast<int>(partition.stages.size()) / stages_per_part(pipeline);
  std::vector<StageRequest> requests =
      requests_of(partition, manual ? manual->mesh_shapes : std::vector<std::vector<int>>{},
                  method.options.mesh_shape, parts, cluster);
  if (automatic)
    for (StageRequest& request : requests)
      std::erase_if(request.meshes, [&](const DeviceMesh& mesh) {
        return !is_allowed(mesh, allowed_shapes(*automatic, method.options));
      });
  return requests;
}

/// The plan of a stage that was found for equal devices elsewhere; none: for another graph.
std::optional<ShardingPlan> moved(const RangePlan& found, const Graph& graph,
                                  const std::vector<DeviceMesh>& meshes) {
  if (found.graph_hash != layer_hash(graph)) return std::nullopt;
  for (const DeviceMesh& mesh : meshes) {
    if (mesh.axes() != found.plan.mesh.axes()) continue;
    ShardingPlan plan = found.plan;
    plan.mesh = mesh;
    return plan;
  }
  return std::nullopt;
}

/// `graph`, traced with a layer per node, with these layers of its forward nodes, and backward
/// nodes in the layers of theirs.
Graph with_layers_of_forward_nodes(Graph graph, const std::vector<int>& layers) {
  std::map<int, int> layer_of;  // by the number of a forward node
  for (std::size_t n = 0; n < layers.size(); ++n)
    if (layers[n] >= 0 && graph.nodes[n].layer >= 0) layer_of[graph.nodes[n].layer] = layers[n];
  for (Node& node : graph.nodes) {
    const auto found = layer_of.find(node.layer);
    node.layer = found == layer_of.end() ? -1 : found->second;
  }
  return graph;
}

}  // namespace

std::vector<BoundaryBatchDims> cut_into_stages(const Graph& graph, std::vector<StagePlan>& stages) {
  std::vector<int> stage_of_layer;
  for (int s = 0; s < static_cast<int>(stages.size()); ++s)
    stage_of_layer.resize(stages[s].last_layer + 1, s);
  const Graph staged = with_stages(graph, stage_of_layer);
  const std::vector<int> batch_dims = intra_op::batch_dims(staged);
  std::vector<BoundaryBatchDims> dims(stages.size());
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    Subgraph part = subgraph(staged, s, s);
    for (const Input& input : part.graph.inputs)
      if (const int dim = batch_dims[part.values[input.value]];
          input.kind == InputKind::boundary && dim >= 0)
        dims[s][input.name] = dim;
    stages[s].graph = std::move(part.graph);
  }
  return dims;
}

std::vector<int> micro_batch_choices(const TrainingStep& step) {
  std::int64_t rows = 0;
  for (const BatchInput& input : step.inputs)
    if (input.batched) rows = std::gcd(rows, input.type.shape.at(0));
  std::vector<int> choices;
  for (std::int64_t power = 1; power <= std::max<std::int64_t>(rows, 1); power *= 2) {
    std::int64_t divisor = power;
    while (rows % divisor != 0) ++divisor;
    if (choices.empty() || divisor > choices.back()) choices.push_back(static_cast<int>(divisor));
  }
  return choices;
}

namespace {

std::vector<int> layers_of_nodes(const Graph& graph) {
  std::vector<int> layers;
  for (const Node& node : graph.nodes) layers.push_back(node.layer);
  return layers;
}

/// Forward nodes of a model by operator and name, in order; without sums over micro-batches, which
/// a step of one micro-batch lacks.
using ForwardNodes = std::map<std::pair<const OpDef*, std::string>, std::vector<int>>;

ForwardNodes forward_nodes(const Graph& graph) {
  std::vector<bool> is_sum(graph.nodes.size());
  for (const Update& update : graph.updates)
    if (find_input(graph, update.input)->kind == InputKind::accumulator)
      is_sum[graph.values[update.value].producer] = true;
  ForwardNodes found;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    if (const Node& node = graph.nodes[n];
        node.region == Region::forward && node.op != &ops::input && !is_sum[n])
      found[{node.op, node.name}].push_back(n);
  return found;
}

/// The layer of each state, by the nodes that read it.
std::map<std::string, int> layers_of_state(const Graph& graph) {
  const Graph layered = with_layers(graph);
  std::map<std::string, int> layers;
  for (const Input& input : layered.inputs)
    if (input.kind == InputKind::state) layers[input.name] = layered.producer(input.value).layer;
  return layers;
}

/// Whether the layers that `graph` is marked with have the state where `leader` has it.
bool has_state_of(const Graph& leader, const Graph& graph) {
  const std::map<std::string, int> leading = layers_of_state(leader);
  for (const auto& [name, layer] : layers_of_state(graph)) {
    const auto found = leading.find(name);
    if (found != leading.end() && found->second != layer) return false;
  }
  return num_layers(graph) == num_layers(leader);
}

/// Per node, the layer in which `leader` has the state that it reads; -1: none, or of several.
std::vector<int> layers_by_state(const Graph& leader, const Graph& graph) {
  const std::map<std::string, int> leading = layers_of_state(leader);
  std::vector<int> layers(graph.nodes.size(), -1);
  for (std::size_t n = 0; n < layers.size(); ++n)
    for (int value : graph.nodes[n].operands) {
      const Input* input = find_input(graph, value);
      if (!input || input->kind != InputKind::state) continue;
      const auto found = leading.find(input->name);
      if (found != leading.end()) layers[n] = std::max(layers[n], found->second);
    }
  return layers;
}

/// The layers in which `leader` has the forward nodes of `graph`. What reads state is where that
/// is. Other nodes of one name count if both have as many: otherwise it is not known which is
/// which. None is behind what reads it, or before what it reads.
std::vector<int> layers_of(const Graph& leader, const Graph& graph) {
  std::vector<int> layers(graph.nodes.size(), -1);
  const ForwardNodes leading = forward_nodes(leader);
  for (const auto& [key, nodes] : forward_nodes(graph)) {
    const auto found = leading.find(key);
    if (found == leading.end() || found->second.size() != nodes.size()) continue;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      layers[nodes[i]] = leader.nodes[found->second[i]].layer;
  }
  const std::vector<int> by_state = layers_by_state(leader, graph);
  std::vector<int> last(layers.size(), std::numeric_limits<int>::max());  // that readers allow
  for (std::size_t n = layers.size(); n-- > 0;) {
    if (graph.nodes[n].region != Region::forward) continue;
    if (by_state[n] >= 0) layers[n] = last[n] = std::min(last[n], by_state[n]);
    layers[n] = std::min(layers[n], last[n]);
    for (int value : graph.nodes[n].operands) {
      int& before = last[graph.values[value].producer];
      before = std::min(before, last[n]);
    }
  }
  for (std::size_t n = 0; n < layers.size(); ++n)
    if (graph.nodes[n].region == Region::forward)
      for (int value : graph.nodes[n].operands)
        layers[n] = std::max(layers[n], layers[graph.values[value].producer]);
  return layers;
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

Graph traced_in_layers(const TrainingStep& step, int num_micro_batches,
                       const std::vector<int>& layers, const std::string& origin) {
  const Graph marked = step.trace(num_micro_batches);
  if (layers_of_nodes(marked) == layers) return marked;
  const Graph graph = step.trace({num_micro_batches, /*per_node=*/true});
  require(
      layers.size() == graph.nodes.size(),
      "plan {}: layers: found those of {} nodes, but the step has {} with {} micro-batches; plan "
      "the step again",
      origin, layers.size(), graph.nodes.size(), num_micro_batches);
  return with_layers_of_forward_nodes(graph, layers);
}

Graph traced_in_layers_of(const Graph& leader, const TrainingStep& step, int num_micro_batches) {
  const Graph marked = step.trace(num_micro_batches);
  if (has_state_of(leader, marked)) return marked;
  const Graph graph = step.trace({num_micro_batches, /*per_node=*/true});
  return with_layers_of_forward_nodes(graph, layers_of(leader, graph));
}

namespace {

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

}  // namespace

StagePlanner::StagePlanner(const Graph& graph, const MethodOptions& method, const Cluster& cluster,
                           double trace_seconds)
    : graph_(graph),
      method_(method),
      cluster_(cluster),
      model_(cost::CostModel::of(cluster)),
      options_(search_options(method, trace_seconds)) {
  options_.whole_boundary_inputs = true;
}

StageSearch& StagePlanner::search(std::int64_t budget) {
  if (search_ && searched_budget_ == budget) return *search_;
  check_stages(method_.pipeline, graph_);
  search_options_ = options_;
  search_options_.time_limit_seconds -= watch_.seconds();
  searched_budget_ = budget;
  const StagePlanning planning{model_, search_options_, cache_};
  search_ = std::make_unique<StageSearch>(
      question_of(std::get<AutoStages>(method_.pipeline.stages), graph_, method_, cluster_, budget),
      planning);
  return *search_;
}

void StagePlanner::choose(std::int64_t budget) {
  const PipeshardParallel& pipeline = method_.pipeline;
  check_stages(pipeline, graph_);
  FoundStages found;
  if (const auto* uniform = std::get_if<UniformStages>(&pipeline.stages)) {
    found.partition = given_stages(*uniform, graph_, cluster_);
  } else if (const auto* manual = std::get_if<ManualStages>(&pipeline.stages)) {
    found.partition = given_stages(*manual, graph_, cluster_);
  } else {
    StageSearch& stages = search(budget);
    while (stages.improve()) {
    }
    found = stages.finish();
    gap_ = 1 - std::min(found.lower_bound, others_bound_) / found.seconds;
    for (inter_op::Stage& stage : found.partition.stages)
      stage.configuration = -1;  // the planner's choice
  }
  requests_ = requests_for(found.partition, method_, cluster_);
  found_plans_ = std::move(found.plans);
}

int StagePlanner::in_flight(std::size_t stage) const {
  const int count = static_cast<int>(requests_.size());
  return pipeline::most_in_flight(method_.pipeline.schedule, count - static_cast<int>(stage) - 1,
                                  count, graph_.num_micro_batches);
}

std::int64_t StagePlanner::counted(const std::vector<StagePlan>& stages, std::size_t stage) const {
  return counted_bytes(stages[stage].graph, stages[stage].plan).with(in_flight(stage));
}

std::vector<StagePlan> StagePlanner::plan(const std::vector<std::int64_t>& limits) const {
  const auto* manual = std::get_if<ManualStages>(&method_.pipeline.stages);
  std::vector<StagePlan> stages = stages_with_layers_of(requests_);
  const std::vector<BoundaryBatchDims> batch_dims = cut_into_stages(graph_, stages);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    intra_op::AutoShardOptions own = options_;
    if (std::holds_alternative<AutoStages>(method_.pipeline.stages)) own.progress = {};
    if (manual && !manual->options.empty()) set_options(manual->options[s], own);
    own.boundary_batch_dims = batch_dims[s];
    own.time_limit_seconds =
        (options_.time_limit_seconds - watch_.seconds()) / static_cast<double>(stages.size() - s);
    const StageLimit limit{limits.empty() ? std::numeric_limits<std::int64_t>::max() : limits[s],
                           in_flight(s)};
    std::optional<ShardingPlan> found;
    if (limits.empty() && s < found_plans_.size() && found_plans_[s])
      found = moved(*found_plans_[s], stages[s].graph, requests_[s].meshes);
    stages[s].plan =
        found ? *std::move(found)
              : plan_stage(stages[s].graph, requests_[s].meshes, limit, {model_, own, cache_});
    stages[s].seconds = stage_seconds(stages[s].plan, stages[s].graph, model_);
  }
  return stages;
}

std::vector<StagePlan> follow_stages(const std::vector<StagePlan>& leader, const Graph& graph,
                                     const cost::CostModel& model) {
  std::vector<StagePlan> stages = stages_with_layers_of(leader);
  cut_into_stages(graph, stages);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].plan = intra_op::follow({leader[s].graph, leader[s].plan}, stages[s].graph, model);
    stages[s].seconds = stage_seconds(stages[s].plan, stages[s].graph, model);
  }
  return stages;
}

}  // namespace alpa
