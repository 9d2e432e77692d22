// src/compile/stage_planner.cc — plans the stages of a pipelined step
#include "stage_planner.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/rule.h"
#include "src/ir/stages.h"
#include "src/ir/subgraph.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/schedules/schedule.h"
#include "src/search/stages/equal_stages.h"
#include "src/search/stages/given_stages.h"
#include "src/search/stages/stage_meshes.h"

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

/// `shapes`: per configuration a logical mesh shape; configuration -1 has `usual`. The first
/// `parts` stages have devices of their own; later ones share them in turn.
std::vector<UnplannedStage> requests_of(const inter_op::StagePartition& partition,
                                        const std::vector<std::vector<int>>& shapes,
                                        const std::vector<int>& usual, int parts,
                                        const Cluster& cluster) {
  std::vector<inter_op::Submesh> submeshes = submeshes_of(partition);
  submeshes.resize(parts);
  const std::vector<std::vector<int>> devices =
      inter_op::place_in_order({cluster.num_hosts, cluster.devices_per_host}, submeshes);
  std::vector<UnplannedStage> requests;
  for (std::size_t s = 0; s < partition.stages.size(); ++s) {
    const inter_op::Stage& stage = partition.stages[s];
    const std::vector<int> shape = stage.configuration < 0 ? usual : shapes[stage.configuration];
    requests.push_back({stage.first_layer, stage.last_layer,
                        logical_meshes(cluster, stage.submesh, devices[s % parts], shape)});
  }
  return requests;
}

void set_options(const StageOptions& stage, intra_op::AutoShardOptions& search) {
  search.allowed.batch_mesh_axis = stage.batch_mesh_axis;
  search.allowed.optimizer_state = search.allowed.gradients =
      stage.shard_optimizer_state ? intra_op::Holding::split : intra_op::Holding::any;
  search.allowed.all_gather = stage.allow_all_gather;
  search.allowed.all_to_all = stage.allow_all_to_all;
}

/// Logical mesh shapes that stages may have; empty: all.
std::vector<std::vector<int>> allowed_shapes(const AutoStages& automatic,
                                             const PipeshardParallel& options) {
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

StageSearchSpace question_of(const AutoStages& automatic, const Graph& graph,
                             const MethodOptions& method, const Cluster& cluster,
                             std::int64_t budget) {
  StageSearchSpace question{graph, cluster};
  question.budget = budget;
  question.submeshes =
      submeshes_of(automatic.submeshes, {cluster.num_hosts, cluster.devices_per_host});
  question.mesh_shapes = allowed_shapes(automatic, method.options);
  question.schedules = schedules_of(method.options);
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
          schedule_name(pipeline), per_part);
  require(num_layers(graph) > 1 || !uniform || uniform->count == 1 ||
              std::holds_alternative<AutoLayers>(pipeline.layers),
          "method pipeline: the model is a single layer, which cannot be cut into {} stages; mark "
          "where layers end with mark_pipeline_boundary, or give .layers = AutoLayers{{}}",
          uniform ? uniform->count : 0);
}

/// Requests for stages on their devices.
std::vector<UnplannedStage> requests_for(const inter_op::StagePartition& partition,
                                         const MethodOptions& method, const Cluster& cluster) {
  const PipeshardParallel& pipeline = method.options;
  const auto* manual = std::get_if<ManualStages>(&pipeline.stages);
  const auto* automatic = std::get_if<AutoStages>(&pipeline.stages);
  const int parts = static_cast<int>(partition.stages.size()) / stages_per_part(pipeline);
  std::vector<UnplannedStage> requests =
      requests_of(partition, manual ? manual->mesh_shapes : std::vector<std::vector<int>>{},
                  method.options.mesh_shape, parts, cluster);
  if (automatic)
    for (UnplannedStage& request : requests)
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

}  // namespace

std::vector<ScheduleKind> schedules_of(const PipeshardParallel& options) {
  if (options.schedule) return {*options.schedule};
  return {ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap};
}

StagePlanner::StagePlanner(const Graph& graph, const MethodOptions& method, const Cluster& cluster,
                           const TraceSeconds& tracing, std::optional<double> work_before)
    : graph_(graph),
      method_(method),
      cluster_(cluster),
      model_(cost::CostModel::of(cluster)),
      options_(search_options(method, tracing, work_before)),
      time_(options_.limits),
      schedule_(method.options.schedule.value_or(ScheduleKind::one_f_one_b)) {
  options_.part.whole_boundary_inputs = true;
}

StageSearch& StagePlanner::search(std::int64_t budget) {
  if (search_ && searched_budget_ == budget) return *search_;
  check_stages(method_.options, graph_);
  search_options_ = options_;
  search_options_.limits = time_.rest();
  searched_budget_ = budget;
  const PlanningContext planning{model_, search_options_, cache_};
  search_ = std::make_unique<StageSearch>(
      question_of(std::get<AutoStages>(method_.options.stages), graph_, method_, cluster_, budget),
      planning);
  return *search_;
}

std::unique_ptr<StageSearch> StagePlanner::search_for_bounds(const inter_op::RecomputableStep& step,
                                                             std::int64_t budget) const {
  StageSearchSpace question = question_of(std::get<AutoStages>(method_.options.stages), step.graph,
                                          method_, cluster_, budget);
  question.recomputable = &step.bytes;
  return std::make_unique<StageSearch>(std::move(question),
                                       PlanningContext{model_, options_, cache_});
}

void StagePlanner::choose(std::int64_t budget) {
  const PipeshardParallel& pipeline = method_.options;
  check_stages(pipeline, graph_);
  FoundStages found;
  if (const auto* uniform = std::get_if<UniformStages>(&pipeline.stages)) {
    found.partition = given_stages(*uniform, graph_, cluster_);
  } else if (const auto* manual = std::get_if<ManualStages>(&pipeline.stages)) {
    found.partition = given_stages(*manual, graph_, cluster_);
    found.plans = given_plans_;
  } else {
    const bool has_ended = search_ && searched_budget_ == budget;  // beside other variants'
    StageSearch& stages = search(budget);
    while (!has_ended && stages.improve()) {
    }
    found = stages.finish();
    // What was ruled out for a smaller budget may fit.
    proven_ = std::min(proven_, found.lower_bound);
    lower_bound_ = std::max(std::min(proven_, others_.bound), others_.of_all);
    is_complete_ = found.is_complete && others_.complete;
  }
  take(std::move(found));
}

bool StagePlanner::choose_fewest_in_flight(double seconds) {
  if (!search_ || schedule_ == schedules_of(method_.options).front()) return false;
  std::optional<FoundStages> other = search_->with_fewest_in_flight(seconds);
  if (other) take(*std::move(other));
  return other.has_value();
}

bool StagePlanner::choose_other(double seconds) {
  if (!search_ || time_.is_over()) return false;
  std::optional<FoundStages> other = search_->other(seconds);
  if (other) take(*std::move(other));
  return other.has_value();
}

void StagePlanner::take(FoundStages found) {
  if (std::holds_alternative<AutoStages>(method_.options.stages))
    for (inter_op::Stage& stage : found.partition.stages)
      stage.configuration = -1;  // the planner's choice
  if (search_) schedule_ = schedules_of(method_.options)[found.schedule];
  requests_ = requests_for(found.partition, method_, cluster_);
  found_plans_ = std::move(found.plans);
}

int StagePlanner::in_flight(std::size_t stage) const {
  const int count = static_cast<int>(requests_.size());
  return pipeline::most_in_flight(schedule_, count - static_cast<int>(stage) - 1, count,
                                  graph_.num_micro_batches);
}

std::int64_t StagePlanner::counted(const std::vector<StagePlan>& stages, std::size_t stage) const {
  return intra_op::counted_bytes(stages[stage].plan, stages[stage].graph).with(in_flight(stage));
}

std::vector<StagePlan> StagePlanner::plan(const std::vector<std::int64_t>& limits) const {
  const auto* manual = std::get_if<ManualStages>(&method_.options.stages);
  std::vector<StagePlan> stages = stages_with_layers_of(requests_);
  const std::vector<BoundaryBatchDims> batch_dims = cut_into_stages(graph_, stages);
  EqualStages equal;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    intra_op::AutoShardOptions own = options_;
    if (std::holds_alternative<AutoStages>(method_.options.stages)) own.progress = {};
    if (manual && !manual->options.empty()) set_options(manual->options[s], own);
    own.part.boundary_batch_dims = batch_dims[s];
    own.limits = time_.rest();
    own.limits.seconds /= static_cast<double>(stages.size() - s);
    own.limits.clock_seconds /= static_cast<double>(stages.size() - s);
    const StageLimit limit{limits.empty() ? kNoByteLimit : limits[s], in_flight(s)};
    std::optional<ShardingPlan> found;
    if (limits.empty() && s < found_plans_.size() && found_plans_[s])
      found = moved(*found_plans_[s], stages[s].graph, requests_[s].meshes);
    const StageToPlan question{stages[s].graph, requests_[s].meshes, limit, batch_dims[s]};
    const bool same_options = !manual || manual->options.empty();
    if (!found && same_options) found = equal.find(question);
    const bool is_new = !found;
    stages[s].plan =
        found ? *std::move(found)
              : plan_stage(stages[s].graph, requests_[s].meshes, limit, {model_, own, cache_});
    if (is_new && stages[s].plan.cost.gap() <= method_.options.relative_gap)
      equal.add(question, stages[s].plan);
  }
  return stages;
}

}  // namespace alpa
