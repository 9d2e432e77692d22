// src/compile/method_options.cc — translates options of a parallel method into the planner's
#include "method_options.h"

#include <algorithm>
#include <limits>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/lower/backend.h"
#include "src/plan/facts/strategy.h"
#include "tuning.h"

namespace alpa {
namespace {

/// Seconds for searches, of a limit of which some have passed: lowering of a graph that took so
/// long to trace needs some, too.
double search_seconds(double limit, double trace_seconds, double passed_seconds) {
  const CompileTuning::Lowering& kept = kCompileTuning.lowering;
  const double lowering =
      std::clamp(kept.of_tracing * trace_seconds, kept.share * limit, kept.most_share * limit);
  return std::max(0.0, limit - passed_seconds - lowering);
}

PipeshardParallel all_options(const PipeshardParallel& method) { return method; }

/// The same options, with stages that have no effect. The compiler counts the names.
template <MethodKind kind>
PipeshardParallel all_options(const ParallelMethod<kind>& method) {
  const auto& [parts, layers, stages, schedule, mesh, batch_axis, axis_uses, split_state, gather,
               to_all, memory, seconds, gap, stop, progress, cache, dumps, executor] = method;
  return {parts,  {},         {},        ScheduleKind::one_f_one_b,
          mesh,   batch_axis, axis_uses, split_state,
          gather, to_all,     memory,    seconds,
          gap,    stop,       progress,  cache,
          dumps,  executor};
}

}  // namespace

MethodOptions options_of(const Method& method) {
  return std::visit([](const auto& m) { return MethodOptions{m.kind, all_options(m)}; }, method);
}

std::string_view schedule_name(const PipeshardParallel& options) {
  return options.schedule ? name_of(*options.schedule) : "auto";
}

void MethodOptions::begin_planning() {
  watch = {};
  work_limit = kCompileTuning.work_per_second * options.solver_seconds;
  clock_limit = options.solver_seconds;
}

bool MethodOptions::is_over() const {
  return watch.work.seconds() >= work_limit || clock_left() <= 0;
}

double MethodOptions::clock_left() const {
  const bool is_stopped = options.stop && *options.stop;
  return is_stopped ? 0 : std::max(0.0, clock_limit - watch.clock.seconds());
}

bool searches_stages(const MethodOptions& method) {
  return method.kind == MethodKind::pipeline &&
         std::holds_alternative<AutoStages>(method.options.stages);
}

void check_options(const MethodOptions& method, const Cluster& cluster) {
  const PipeshardParallel& options = method.options;
  require(cluster.num_devices() >= 1,
          "parallelize: the cluster has {} devices; at least 1 is needed", cluster.num_devices());
  const int micro_batches = options.num_micro_batches.value_or(1);
  require(micro_batches >= 1, "parallelize: {} micro-batches; give at least 1", micro_batches);
  const std::int64_t runs = std::int64_t{micro_batches} * cluster.num_devices();
  require(method.kind == MethodKind::serial || runs <= kMaxMicroBatchesOnDevices,
          "parallelize: {} micro-batches on {} devices are {}; the most of a step are {}, so give "
          "fewer of either",
          micro_batches, cluster.num_devices(), runs, kMaxMicroBatchesOnDevices);
  require(
      method.kind != MethodKind::data || !options.shard_optimizer_state,
      "parallelize: method data holds optimizer state on every device, but shard_optimizer_state "
      "is set; use Zero2Parallel, or ShardParallel with it");
  require(options.axis_uses.empty() || method.kind == MethodKind::shard ||
              method.kind == MethodKind::pipeline,
          "parallelize: axis_uses is set, but method {} says itself how the mesh is used; use "
          "ShardParallel or PipeshardParallel",
          name_of(method.kind));
  require(
      !options.executor.reproducible || lower::find_backend(cluster.backend).fixes_sums,
      "parallelize: reproducible is set, but libraries of backend {} choose the order of sums by "
      "the shapes of a device's part; use backend cpu, or leave it out",
      cluster.backend);
  require(options.solver_seconds > 0, "parallelize: solver_seconds is {}; give more than 0",
          options.solver_seconds);
  require(options.relative_gap >= 0 && options.relative_gap < 1,
          "parallelize: relative_gap is {}; give at least 0 and less than 1", options.relative_gap);
  require(options.memory_budget_bytes.value_or(1) > 0,
          "parallelize: a memory budget of {} bytes; give more than 0",
          *options.memory_budget_bytes);
}

void check_size(const Graph& graph, const MethodOptions& method, const Cluster& cluster) {
  const auto nodes = static_cast<std::int64_t>(graph.nodes.size());
  const int devices = method.kind == MethodKind::serial ? 1 : cluster.num_devices();
  require(nodes <= kMaxGraphNodes,
          "parallelize: the graph has {} nodes; the most of one graph are {}, so give the model "
          "fewer layers",
          nodes, kMaxGraphNodes);
  require(
      nodes * devices <= method.most_nodes,
      "parallelize: {} nodes on {} devices are {}; the most of a step that is {} are {}, so give "
      "fewer layers or devices",
      nodes, devices, nodes * devices, method.most_nodes == kMaxRunNodes ? "run" : "planned",
      method.most_nodes);
}

std::vector<DeviceMesh> candidate_meshes(const MethodOptions& method, const Cluster& cluster) {
  const PipeshardParallel& options = method.options;
  if (method.kind == MethodKind::serial) return {cluster.submesh(1, 1).mesh({1})};
  if (!options.mesh_shape.empty()) return {cluster.mesh(options.mesh_shape)};
  std::vector<DeviceMesh> meshes;
  for (const std::vector<int>& shape : logical_mesh_shapes(cluster.num_devices())) {
    if (options.batch_mesh_axis.value_or(0) < static_cast<int>(shape.size()))
      meshes.push_back(cluster.mesh(shape));
  }
  require(!meshes.empty(),
          "parallelize: batch_mesh_axis is {}, but no mesh of {} devices has that many axes",
          options.batch_mesh_axis.value_or(0), cluster.num_devices());
  return meshes;
}

double first_plan_seconds(const MethodOptions& method) {
  const auto& tuning = kCompileTuning.micro_batches;
  return std::max(tuning.first_plan_limit * method.clock_limit, tuning.first_plan_least);
}

intra_op::AutoShardOptions search_options(const MethodOptions& method, const TraceSeconds& tracing,
                                          std::optional<double> work_before) {
  intra_op::AutoShardOptions search;
  if (method.kind == MethodKind::data) search = intra_op::data_parallel_options();
  if (method.kind == MethodKind::zero2) search = intra_op::zero2_options();
  if (method.kind == MethodKind::zero3) search = intra_op::zero3_options();
  search.method = name_of(method.kind);
  const PipeshardParallel& options = method.options;
  if (method.kind != MethodKind::serial) search.allowed.batch_mesh_axis = options.batch_mesh_axis;
  search.allowed.axis_uses = options.axis_uses;
  if (options.shard_optimizer_state)
    search.allowed.optimizer_state = search.allowed.gradients = intra_op::Holding::split;
  search.allowed.all_gather = options.allow_all_gather;
  search.allowed.all_to_all = options.allow_all_to_all;
  search.allowed.fixed_sums = options.executor.reproducible;
  search.limits = {.seconds = search_seconds(method.work_limit, tracing.work,
                                             work_before.value_or(tracing.work)),
                   .clock_seconds = search_seconds(method.clock_limit, tracing.clock,
                                                   method.watch.clock.seconds()),
                   .stop = options.stop,
                   .relative_gap = options.relative_gap,
                   .first_plan_seconds = first_plan_seconds(method)};
  search.progress = options.progress;
  return search;
}

void require_sharded_state(const ShardingPlan& plan, const Graph& graph, const std::string& path) {
  const std::vector<bool> held = held_like_optimizer_state(graph);
  for (const Input& input : graph.inputs) {
    if (!held[input.value] && input.kind != InputKind::accumulator) continue;
    const int node = graph.values[input.value].producer;
    const int own = intra_op::devices_used(plan.strategies[node], plan.mesh);
    int most = 1;
    for (const Strategy& strategy :
         intra_op::all_strategies(rule_of(graph, graph.nodes[node]), plan.mesh))
      most = std::max(most, intra_op::devices_used(strategy, plan.mesh));
    require(
        own == most,
        "plan file {}: the plan splits \"{}\" over {} of {} devices, but shard_optimizer_state is "
        "set; plan again with it, or load the plan without it",
        path, input.name, own, most);
  }
}

std::int64_t memory_budget(const MethodOptions& method, const Cluster& cluster) {
  const std::int64_t budget =
      method.options.memory_budget_bytes.value_or(cluster.device.memory_bytes);
  return budget > 0 ? budget : std::numeric_limits<std::int64_t>::max();
}

}  // namespace alpa
