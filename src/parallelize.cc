// src/parallelize.cc — the reader's map: from a training step to device programs. `compile` plans;
// `lower_plan` has one line per compiler pass, in order.
#include "alpa/parallelize.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "method_options.h"
#include "micro_batch_choice.h"
#include "pass_log.h"
#include "pipeline_file.h"
#include "pipeline_forecast.h"
#include "pipeline_planning.h"
#include "plan_cache.h"
#include "planning_budget.h"
#include "remat_choice.h"
#include "short_batch.h"
#include "src/base/file.h"
#include "src/base/timing.h"
#include "src/cost/cost_model.h"
#include "src/intra_op/plan/recomputed.h"
#include "src/intra_op/search/follow.h"

#include "src/lower/state_layout.h"
#include "src/runtime/backend.h"
#include "src/spmd/join_stages.h"
#include "stage_plan.h"

namespace alpa {
namespace {

constexpr FileKind kPlanFile{"plan file", 1 << 28};

/// The target of the passes.
struct Target {
  const runtime::Backend& backend;
  const ExecutorOptions& options;
  std::int64_t budget;  ///< bytes of a device
  const PassLog& log;
  cost::CostModel model;
  const lower::StateLayout* state = nullptr;  ///< of the step whose state this one shares
  int at_once = 0;  ///< micro-batches that stages keep in flight at most; 0: as the schedule does
};

/// Passes from a partitioned program until collectives are merged.
spmd::SpmdProgram fused_program(spmd::SpmdProgram partitioned, const Target& target) {
  const auto& [backend, options, budget, log, model, state, at_once] = target;
  spmd::SpmdProgram program = log.check("partitioned.txt", std::move(partitioned));
  if (backend.fuses_epilogue)
    program = log.check("epilogues.txt", spmd::fuse_epilogues(program, backend.fuses_epilogue));
  if (backend.launches) program = log.check("squared_norms.txt", spmd::fuse_squares(program));
  program = log.check("fused.txt", spmd::fuse_elementwise(program));
  log.finished("partitioning and fusing");
  return program;
}

/// Notes what the stages' devices hold.
void set_memory(std::vector<StagePlan>& stages, const std::vector<lower::DeviceProgram>& devices,
                std::int64_t limit) {
  for (StagePlan& stage : stages)
    for (const lower::DeviceProgram& device : devices) {
      const std::vector<int>& own = stage.plan.mesh.devices();
      if (std::find(own.begin(), own.end(), device.device) == own.end()) continue;
      if (device.arena_bytes > stage.memory.total()) stage.memory = stage_memory(device, limit);
    }
}

/// Passes that merge collectives, and all later ones.
CompiledStep lowered_program(CompiledStep planned, const spmd::SpmdProgram& fused,
                             std::int64_t bucket_bytes, std::int64_t slack, const Target& target) {
  const auto& [backend, options, budget, log, model, state, at_once] = target;
  spmd::SpmdProgram program =
      log.check("bucketed.txt", spmd::bucket_collectives(fused, bucket_bytes, slack));
  if (backend.launches && options.overlap_updates)
    program = log.check("overlap_updates.txt", spmd::overlap_updates(program));
  if (backend.launches)
    program =
        log.check("joined.txt", spmd::fuse_squared_norms(spmd::fuse_optimizer_updates(program)));
  runtime::LoweredProgram devices =
      runtime::lower_program(program, options, backend.name, schedule_of(planned, at_once), state);
  log.write("device0.txt", [&] { return to_string(devices.firsts.front(), program); });
  planned.memory_bytes = 0;  // exact, as an executor will take
  for (const lower::DeviceProgram& device : devices.firsts)
    planned.memory_bytes = std::max(planned.memory_bytes, device.arena_bytes);
  set_memory(planned.stages, devices.firsts, budget);
  planned.program = std::make_shared<const spmd::SpmdProgram>(std::move(program));
  planned.lowered = std::make_shared<const runtime::LoweredProgram>(std::move(devices));
  log.finished("lowering");
  return planned;
}

/// How much merged collectives may add to a program's peak: one bucket, but at most a
/// quarter of the unused budget.
std::int64_t bucket_slack(const spmd::SpmdProgram& program, std::int64_t bucket_bytes,
                          std::int64_t budget) {
  return std::clamp<std::int64_t>((budget - spmd::estimated_bytes(program)) / 4, 0, bucket_bytes);
}

/// Whether what devices keep from step to step takes more than the budget, whatever else is done.
bool state_exceeds(const CompiledStep& planned, std::int64_t budget) {
  return std::any_of(planned.lowered->firsts.begin(), planned.lowered->firsts.end(),
                     [&](const lower::DeviceProgram& device) {
                       std::int64_t bytes = 0;
                       for (int buffer : device.kept) bytes += device.buffers[buffer].type.bytes();
                       return bytes > budget;
                     });
}

/// Merged collectives keep their operands until the last one is ready. If that exceeds the budget,
/// they are merged only as far as the peak stays; if that still does, none is merged.
CompiledStep lower_partitioned(const CompiledStep& plan, spmd::SpmdProgram partitioned,
                               const Target& target) {
  const spmd::SpmdProgram fused = fused_program(std::move(partitioned), target);
  const std::int64_t bucket = target.options.bucket_bytes, budget = target.budget;
  const std::int64_t slack = bucket_slack(fused, bucket, budget);
  CompiledStep planned = lowered_program(plan, fused, bucket, slack, target);
  if (state_exceeds(planned, budget)) return planned;
  if (planned.memory_bytes > budget && slack > 0)
    planned = lowered_program(plan, fused, bucket, 0, target);
  return planned.memory_bytes <= budget ? planned : lowered_program(plan, fused, 0, 0, target);
}

CompiledStep lower_plan(const Graph& graph, ShardingPlan solved, const Target& target) {
  target.log.finished("searching");
  solved.recomputed = intra_op::price_recomputed(solved, graph, target.model);
  ShardingPlan plan = target.log.check("plan.json", std::move(solved), graph);
  CompiledStep planned{.graph = graph, .plan = std::move(plan)};
  planned.repeated = repeated_work(planned.plan, graph);
  return lower_partitioned(planned, spmd::partition(graph, planned.plan), target);
}

/// Joins planned stages to one program, a mesh per stage.
CompiledStep lower_stages(const Graph& graph, std::vector<StagePlan> stages, ScheduleKind schedule,
                          std::string_view method, const Cluster& cluster, const Target& target) {
  target.log.finished("searching");
  CompiledStep planned;
  planned.graph = graph;
  planned.stages = std::move(stages);
  planned.schedule = schedule;
  planned.plan.method = method;
  std::vector<spmd::PlannedPart> parts;
  for (StagePlan& stage : planned.stages) {
    stage.plan.recomputed = intra_op::price_recomputed(stage.plan, stage.graph, target.model);
    parts.push_back({stage.graph, stage.plan});
  }
  spmd::SpmdProgram joined = spmd::join_stages(graph, parts, cluster);
  planned.transfers = transfers_of(joined, cluster);
  const pipeline::Timeline timeline = forecast(planned, target.at_once);
  planned.plan.cost.objective_seconds = timeline.clocks;
  planned.bubble = timeline.bubble();
  return lower_partitioned(planned, std::move(joined), target);
}

ShardingPlan read_plan(const Graph& graph, const std::string& text, const MethodOptions& method,
                       const Cluster& cluster, const std::string& path) {
  ShardingPlan plan = plan_from_json(text, graph, path);
  const int devices = plan.mesh.num_devices();
  const bool serial = plan.method == "serial" && devices == 1;
  require(devices == cluster.num_devices() || serial,
          "plan file {}: the plan is for {} devices (mesh {}), but the cluster has {}", path,
          devices, shape_text(plan.mesh), cluster.num_devices());
  for (int d = 0; d < devices; ++d)
    require(plan.mesh.devices()[d] < cluster.num_devices(),
            "plan file {}: mesh.devices[{}]: found {}; the cluster has devices 0 to {}", path, d,
            plan.mesh.devices()[d], cluster.num_devices() - 1);
  if (method.options.shard_optimizer_state) require_sharded_state(plan, graph, path);
  return plan;
}

/// Throws Error unless the stages' meshes together are the devices of the cluster. Stages have the
/// same devices, or share none.
void check_devices(const std::vector<StagePlan>& stages, const Cluster& cluster,
                   const std::string& path) {
  std::map<int, const std::vector<int>*> mesh_of;  // by device
  for (const StagePlan& stage : stages)
    for (int device : stage.plan.mesh.devices()) {
      const auto [known, added] = mesh_of.emplace(device, &stage.plan.mesh.devices());
      require(
          device < cluster.num_devices() && *known->second == stage.plan.mesh.devices(),
          "plan file {}: stage {} is on device {}, which the cluster lacks or another stage uses "
          "together with other devices; plan the step again",
          path, &stage - stages.data(), device);
    }
  require(static_cast<int>(mesh_of.size()) == cluster.num_devices(),
          "plan file {}: the plan is for {} devices, but the cluster has {}", path, mesh_of.size(),
          cluster.num_devices());
}

/// A plan from the text of a file. It must keep the budget, as a searched plan does.
CompiledStep planned_from_text(const TrainingStep& given, const MethodOptions& method,
                               const Cluster& cluster, const std::string& text,
                               const std::string& path, const Target& target) {
  const TrainingStep step = with_remat_of_file(given, text, path);
  const int micro_batches = method.options.num_micro_batches;
  CompiledStep planned;
  if (is_pipeline_file(text)) {
    planned = pipeline_from_json(text, step, micro_batches, path);
    const double bound = planned.plan.cost.lower_bound_seconds;
    check_devices(planned.stages, cluster, path);
    for (StagePlan& stage : planned.stages)
      stage.seconds = stage_seconds(stage.plan, stage.graph, cost::CostModel::of(cluster));
    planned = lower_stages(target.log.check("graph.txt", planned.graph), planned.stages,
                           planned.schedule, name_of(MethodKind::pipeline), cluster, target);
    planned.plan.cost.lower_bound_seconds = bound;
  } else {
    const Graph graph = target.log.check("graph.txt", step.trace(micro_batches));
    planned = lower_plan(graph, read_plan(graph, text, method, cluster, path), target);
  }
  require(planned.memory_bytes <= target.budget,
          "plan file {}: the plan needs {} bytes per device, {} more than the memory budget of {}; "
          "plan again within it, or raise the budget",
          path, planned.memory_bytes, planned.memory_bytes - target.budget, target.budget);
  return planned;
}

CompiledStep planned_by_search(const Graph& graph, const MethodOptions& method,
                               const Cluster& cluster, double trace_seconds, const Target& target) {
  intra_op::AutoShardOptions options = search_options(method, trace_seconds);
  options.memory_budget_bytes = target.budget;
  intra_op::AutoSharding search(graph, candidate_meshes(method, cluster),
                                cost::CostModel::of(cluster), options);
  try {
    return plan_within_budget(search, target.budget, [&](ShardingPlan plan) {
      return lower_plan(graph, std::move(plan), target);
    });
  } catch (const intra_op::OverBudget& error) {
    const std::string overtime = target.log.overtime();
    if (overtime.empty()) throw;
    intra_op::OverBudget late(fmt::format("{}; {}", error.what(), overtime));
    late.missing_bytes = error.missing_bytes;
    late.smallest_bytes = error.smallest_bytes;
    throw late;
  }
}

/// Lowers the planner's stages of `graph` within the budget.
CompiledStep lowered_stages(StagePlanner& planner, const Graph& graph, const MethodOptions& method,
                            const Cluster& cluster, const Target& target) {
  CompiledStep planned = plan_stages_within_budget(
      planner, searches_stages(method), target.budget, [&](std::vector<StagePlan> stages) {
        return lower_stages(graph, std::move(stages), method.pipeline.schedule,
                            name_of(method.kind), cluster, target);
      });
  PlanCost& cost = planned.plan.cost;
  cost.lower_bound_seconds = cost.objective_seconds * (1 - planner.gap());
  if (planned.memory_bytes > target.budget)
    throw intra_op::OverBudget(fmt::format(
        "method pipeline: the stages need {} bytes per device, {} more than the memory budget of "
        "{}; give more devices or stages, or raise the budget",
        planned.memory_bytes, planned.memory_bytes - target.budget, target.budget));
  return planned;
}

CompiledStep planned_in_stages(const Graph& graph, const MethodOptions& method,
                               const Cluster& cluster, double trace_seconds, const Target& target) {
  StagePlanner planner(graph, method, cluster, trace_seconds);
  return lowered_stages(planner, graph, method, cluster, target);
}

/// Stages that are searched for, with the best number of micro-batches.
CompiledStep planned_in_micro_batches(const TrainingStep& step, const MethodOptions& method,
                                      const Cluster& cluster, const Stopwatch& watch,
                                      const Target& target) {
  MicroBatchChoice choice(step, method, cluster, target.budget, watch);
  while (true) {
    MicroBatchNumber& best = choice.best();
    try {
      return lowered_stages(*best.planner, target.log.check("graph.txt", best.graph), best.method,
                            cluster, target);
    } catch (const Error&) {
      choice.drop(best);
    }
  }
}

/// The plan that is kept for this search, or else its result, which is kept if it is proven.
CompiledStep kept_or(const Graph& graph, const TrainingStep& step, const MethodOptions& method,
                     const Cluster& cluster, const Target& target,
                     const std::function<CompiledStep()>& search) {
  const ShardParallel& options = method.options;
  if (options.plan_cache_dir.empty()) return search();
  const PlanCache cache(options.plan_cache_dir);
  const std::string key = planning_key(graph, method, cluster);
  if (const std::optional<std::string> kept = cache.find(key)) {
    try {
      return planned_from_text(step, method, cluster, *kept, cache.path_of(key), target);
    } catch (const Error& error) {
      PlanCache::tell_unusable(error.what());
    }
  }
  CompiledStep planned = search();
  if (planned.plan.cost.gap() <= options.relative_gap) cache.keep(key, to_json(planned));
  return planned;
}

/// The plan of least predicted seconds among those of `choices`, in ascending order, until two in a
/// row are no better or time is over. Throws what the first choice throws if there is no plan.
CompiledStep best_of_micro_batches(const std::vector<int>& choices,
                                   const std::function<bool()>& is_over,
                                   const std::function<CompiledStep(int)>& plan) {
  std::optional<CompiledStep> best;
  std::exception_ptr first_failure;
  int worse = 0;
  for (int choice : choices) {
    if (worse == 2 || (best && is_over())) break;
    try {
      CompiledStep next = plan(choice);
      const double seconds = next.plan.cost.objective_seconds;
      ++worse;
      if (best && seconds >= best->plan.cost.objective_seconds) continue;
      best = std::move(next);
      worse = 0;
    } catch (const Error&) {  // too large
      if (!first_failure) first_failure = std::current_exception();
    }
  }
  if (!best) std::rethrow_exception(first_failure);
  return *std::move(best);
}

CompiledStep compile(const TrainingStep& step, const MethodOptions& method, const Cluster& cluster,
                     const std::string* plan_path) {
  const Stopwatch watch;
  check_options(method, cluster);
  const PassLog log(method.options.dump_dir);
  const Target target{runtime::find_backend(cluster.backend), method.options.executor,
                      memory_budget(method, cluster), log, cost::CostModel::of(cluster)};
  double left = 1;  // of the time limit, for a number of micro-batches
  const auto plan = [&](const TrainingStep& traced, const MethodOptions& chosen) {
    const Stopwatch tracing;
    log.begin_plan(chosen.options.solver_seconds);
    const Graph graph = traced_in_layers(traced, chosen);
    log.finished("tracing");
    check_size(graph, chosen, cluster);
    return kept_or(graph, traced, chosen, cluster, target, [&] {
      MethodOptions limited = chosen;
      limited.options.solver_seconds *= left;
      return (method.kind == MethodKind::pipeline ? planned_in_stages : planned_by_search)(
          log.check("graph.txt", graph), limited, cluster, tracing.seconds(), target);
    });
  };
  const auto planned_with = [&](int num_micro_batches) {
    MethodOptions chosen = method;
    chosen.options.num_micro_batches = num_micro_batches;
    left = std::max(0.0, 1 - watch.seconds() / method.options.solver_seconds);
    if (!step.chooses_remat) return plan(step, chosen);
    return plan_choosing_remat(
        step, num_micro_batches, target.model, [&](const TrainingStep& traced, double share) {
          chosen.options.solver_seconds = share * method.options.solver_seconds;
          return plan(traced, chosen);
        });
  };
  const auto searched = [&] {
    if (!chooses_micro_batches(method)) return planned_with(method.options.num_micro_batches);
    const std::vector<int> choices = micro_batch_choices(step);
    const auto is_over = [&] {
      return (method.options.stop && *method.options.stop) ||
             watch.seconds() >= method.options.solver_seconds;
    };
    if (!searches_stages(method) || step.chooses_remat)
      return best_of_micro_batches(choices, is_over, planned_with);
    const auto search = [&] {
      return planned_in_micro_batches(step, method, cluster, watch, target);
    };
    if (method.options.plan_cache_dir.empty()) return search();
    return kept_or(step.trace(choices.front()), step, method, cluster, target, search);
  };
  CompiledStep planned =
      plan_path ? planned_from_text(step, method, cluster, read_file(*plan_path, kPlanFile),
                                    *plan_path, target)
                : searched();
  planned.seconds = watch.seconds();
  return planned;
}

/// Settings of a call of `parallelize`.
struct Settings {
  MethodOptions method;
  Cluster cluster;
};

/// Micro-batches of a step that follows, and how many of them stages keep in flight at most.
struct MicroBatches {
  int count = 1;
  int at_once = 0;  ///< 0: as many as the schedule does
};

/// Plans a step on the states of `leader`, along its plan, within `budget` bytes.
CompiledStep compile_following(const TrainingStep& given, const MicroBatches& micro_batches,
                               const Executable& leader, const Settings& settings,
                               std::int64_t budget, const PassLog& log) {
  const Stopwatch watch;
  const lower::StateLayout state = leader.executor().layout_of_states();
  const Target target{runtime::find_backend(settings.cluster.backend),
                      settings.method.options.executor,
                      budget,
                      log,
                      cost::CostModel::of(settings.cluster),
                      &state,
                      micro_batches.at_once};
  const cost::CostModel& model = target.model;
  const CompiledStep& led = leader.planned();
  const TrainingStep step =
      given.chooses_remat ? with_remat(given, recomputed_layers(led.graph)) : given;
  const bool pipelined = !led.stages.empty();
  const Graph graph = log.check(
      "graph.txt", pipelined ? traced_in_layers_of(leader.graph(), step, micro_batches.count)
                             : step.trace(micro_batches.count));
  CompiledStep planned =
      pipelined ? lower_stages(graph, follow_stages(led.stages, graph, model), led.schedule,
                               kFollow, settings.cluster, target)
                : lower_plan(graph, intra_op::follow({led.graph, led.plan}, graph, model), target);
  planned.seconds = watch.seconds();
  return planned;
}

/// `whole` for a batch of fewer rows. It is packed to fit beside the states as they are; if it
/// cannot be, they get more room within the memory budget.
Executable shorter(const TrainingStep& step, std::int64_t rows, const Executable& whole,
                   const Settings& settings) {
  const int whole_parts = whole.graph().num_micro_batches;
  const MicroBatches parts{micro_batches_of_short_batch(rows, {whole.batch_rows(), whole_parts}),
                           whole_parts};
  const std::int64_t room = whole.executor().arena_bytes(),
                     budget = std::max(room, memory_budget(settings.method, settings.cluster));
  CompiledStep planned = compile_following(step, parts, whole, settings, room, PassLog(""));
  require(
      planned.memory_bytes <= budget,
      "a batch of {} rows needs {} bytes per device, {} more than the memory budget of {}; leave "
      "it out (BatchOptions::drop_last), choose a batch that divides the data, or raise the "
      "budget",
      rows, planned.memory_bytes, planned.memory_bytes - budget, budget);
  return {std::move(planned),
          step,
          settings.cluster,
          settings.method.options.executor,
          {.with = &whole, .same_step = true}};
}

/// Loads a planned step; `leader` makes the states, if it is given.
Executable loaded(CompiledStep planned, const TrainingStep& step, const Executable* leader,
                  const Settings& settings) {
  ExecutableRelations relations{.with = leader};
  if (step.with_batch)
    relations.shorter = [step, settings](const Executable& whole, std::int64_t rows) {
      return shorter(step.with_batch(rows), rows, whole, settings);
    };
  return {std::move(planned), step, settings.cluster, settings.method.options.executor,
          std::move(relations)};
}

/// Step number `number` of a call, counted from 1.
Executable following(const TrainingStep& step, int number, const Executable& leader,
                     const Settings& settings) {
  const ShardParallel& options = settings.method.options;
  const std::int64_t budget = memory_budget(settings.method, settings.cluster);
  const PassLog log(options.dump_dir.empty() ? ""
                                             : fmt::format("{}/step{}", options.dump_dir, number));
  CompiledStep planned =
      compile_following(step, {options.num_micro_batches}, leader, settings, budget, log);
  require(planned.memory_bytes <= budget,
          "step {} needs {} bytes per device with the state it shares, {} more than the memory "
          "budget of {}; give it a smaller batch, or raise the budget",
          number, planned.memory_bytes, planned.memory_bytes - budget, budget);
  return loaded(std::move(planned), step, &leader, settings);
}

/// The first step as planned, or as in the file; the others along its plan.
std::vector<Executable> executables(std::span<const TrainingStep> steps, const Method& method,
                                    const Cluster& cluster, const std::string* plan_path) {
  require(!steps.empty(), "parallelize: no steps; give at least one");
  require_devices(cluster);
  Settings settings{options_of(method), cluster};
  settings.method.most_nodes = kMaxRunNodes;
  CompiledStep first = compile(steps.front(), settings.method, cluster, plan_path);
  settings.method.options.num_micro_batches = first.graph.num_micro_batches;
  std::vector<Executable> loaded_steps{loaded(std::move(first), steps.front(), nullptr, settings)};
  for (std::size_t i = 1; i < steps.size(); ++i)
    loaded_steps.push_back(
        following(steps[i], static_cast<int>(i) + 1, loaded_steps.front(), settings));
  return loaded_steps;
}

}  // namespace

void require_devices(const Cluster& cluster) {
  runtime::find_backend(cluster.backend).require_devices(cluster.num_devices());
}

CompiledStep plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster) {
  return compile(step, options_of(method), cluster, nullptr);
}

Executable parallelize(const TrainingStep& step, const Method& method, const Cluster& cluster) {
  return executables({&step, 1}, method, cluster, nullptr).front();
}

std::vector<Executable> parallelize(std::span<const TrainingStep> steps, const Method& method,
                                    const Cluster& cluster) {
  return executables(steps, method, cluster, nullptr);
}

std::array<Executable, 2> parallelize(const TrainingStep& first, const TrainingStep& second,
                                      const Method& method, const Cluster& cluster) {
  return parallelize({first, second}, method, cluster);
}

Executable load_plan(const TrainingStep& step, const Method& method, const Cluster& cluster,
                     const std::string& path) {
  return executables({&step, 1}, method, cluster, &path).front();
}

std::array<Executable, 2> load_plan(const TrainingStep& first, const TrainingStep& second,
                                    const Method& method, const Cluster& cluster,
                                    const std::string& path) {
  const TrainingStep steps[] = {first, second};
  const std::vector<Executable> both = executables(steps, method, cluster, &path);
  return {both[0], both[1]};
}

}  // namespace alpa
