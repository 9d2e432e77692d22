// src/api/parallelize.cc — the reader's map: from a training step to device programs. `run_passes`
// has a line per compiler pass, in order; src/compile/search.h says how the plan is chosen.
#include "src/api/parallelize.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "alpa/version.h"
#include "kernels/cpu/isa.h"
#include "src/base/file.h"
#include "src/base/timing.h"
#include "src/compile/follow.h"
#include "src/compile/plan_cache.h"
#include "src/compile/search.h"
#include "src/compile/trace.h"
#include "src/ir/input.h"
#include "src/processes/world.h"
#include "src/report/pipeline_forecast.h"
#include "src/runtime/backend.h"
#include "src/spmd/join_stages.h"

namespace alpa {

CompiledStep run_passes(const Graph& graph, Plan plan, const LoweringTarget& target) {
  const PassLog& log = target.log;
  log.finished("searching");
  for (StagePlan& stage : plan.stages) verify(stage.plan, stage.graph);
  set_forecast(plan.stages, target.model);
  spmd::SpmdProgram program = spmd::partition(graph, plan, target.cluster);
  set_forecast(plan, program, target.cluster);
  CompiledStep planned{.graph = graph, .plan = std::move(plan)};
  log.write("plan.json", [&] { return to_json(planned); });
  if (target.options.reproducible) program = with_fixed_sums(std::move(program), graph);
  program = log.check("partitioned.txt", std::move(program));
  if (target.backend.fuses_epilogue)
    program = log.check("epilogues.txt", fuse_epilogues(program, target.backend.fuses_epilogue));
  if (target.backend.launches)
    program = log.check("squared_norms.txt", fuse_small_sums(fuse_squares(program)));
  program = log.check("fused.txt", fuse_elementwise(program));
  log.finished("partitioning and fusing");
  return lower_within_budget(planned, program, target);  // buckets collectives, lowers
}

namespace {

constexpr FileKind kPlanFile{"plan file", 1 << 28};

/// All that decides what a step computes, a line each.
std::string step_text(const Graph& graph, const MethodOptions& method, const Cluster& cluster) {
  const ExecutorOptions& options = method.options.executor;
  return fmt::format(
      "method {}\n{} devices of backend {}\nalpa {}\ninstruction set {}\ncheck_finite {}\n"
      "record_times {}\ntf32 {}\ntune {}\n{}\n{}",
      name_of(method.kind), cluster.num_devices(), cluster.backend, version(),
      cpu::instruction_sets(), options.check_finite, options.record_times, options.tf32,
      options.tune, options_text(method), to_string(graph));
}

/// The plan that a search finds. Of several processes one searches, and all take its plan. Before
/// that, all trace the step, which must be the same.
CompiledStep searched_by_rank_0(const PlanRequest& request) {
  processes::World* const world = processes::world();
  if (!world) return search_plan(request);
  world->note_call("planning a step");
  const Graph graph =
      trace(request.step, TraceOptions(request.method.options.num_micro_batches.value_or(1)));
  world->require_equal("the step", step_text(graph, request.method, request.cluster));
  std::optional<CompiledStep> found;
  const std::string text = world->from_rank_0([&] {
    found = search_plan(request);
    return to_json(*found);
  });
  if (found) return std::move(*found);
  try {
    return plan_from_text(request, text, "of rank 0");
  } catch (const Error& error) {
    fail("rank {} cannot follow rank 0: {}", world->rank(), error.what());
  }
}

/// The first step of a call: planned, or with the plan of a file.
CompiledStep compile(const TrainingStep& step, const MethodOptions& of, const Cluster& cluster,
                     const std::string* plan_path) {
  MethodOptions method = of;
  method.begin_planning();
  const ProcessorWatch processor;
  check_options(method, cluster);
  const PassLog log(method.options.dump_dir);
  const LoweringTarget target{cluster, method.options.executor, memory_budget(method, cluster),
                              log};
  const PlanRequest request{step, method, cluster, log, [&](const Graph& graph, Plan plan) {
                              return run_passes(graph, std::move(plan), target);
                            }};
  CompiledStep planned = plan_path
                             ? plan_from_text(request, read_file(*plan_path, kPlanFile), *plan_path)
                             : searched_by_rank_0(request);
  planned.seconds = method.watch.clock.seconds();
  if (processor.seconds() > method.clock_limit + kOvertimeSeconds) planned.overtime = log.phases();
  return planned;
}

/// Fails the launch unless all its processes have the same step, plan and programs.
void note_compiled(const CompiledStep& planned, const MethodOptions& method,
                   const Cluster& cluster) {
  processes::World* const world = processes::world();
  if (!world) return;
  world->note_call("parallelize");
  std::string programs;
  for (const lower::DeviceProgram& device : planned.lowered->firsts)
    programs += lower::to_string(device, *planned.program);
  world->require_equal(
      "the planned step",
      fmt::format("{} threads a device\n{}\n{}\n{}", planned.lowered->threads,
                  step_text(planned.graph, method, cluster), to_json(planned), programs));
}

/// Names of the states that a step updates.
std::set<std::string> updated_states(const Graph& graph) {
  std::set<std::string> names;
  for (const Update& update : graph.updates)
    if (const Input* input = find_input(graph, update.input); input->kind == InputKind::state)
      names.insert(input->name);
  return names;
}

/// Throws Error unless a step that counts with the first one is the same step.
void check_counting(const Graph& graph, const Graph& first, std::size_t number) {
  const std::set<std::string> own = updated_states(graph), all = updated_states(first);
  std::vector<std::string> others;
  std::ranges::set_symmetric_difference(own, all, std::back_inserter(others));
  if (!others.empty())
    fail(
        "step {} counts its runs with the first (TrainingStep::counts_with_first), but {} updates "
        "\"{}\"; build both alike, or let it count its own runs",
        number, own.contains(others.front()) ? "it alone" : "only the first", others.front());
}

/// The first step as planned, or as in the file; the others along its plan.
std::vector<Executable> executables(std::span<const TrainingStep> steps, const Method& method,
                                    const Cluster& cluster, const std::string* plan_path) {
  require(!steps.empty(), "parallelize: no steps; give at least one");
  require_devices(cluster);
  MethodOptions options = options_of(method);
  options.most_nodes = kMaxRunNodes;
  const auto follows = [](const TrainingStep& step, const Executable& leader,
                          const MethodOptions& of, const Cluster& on) {
    return FollowRequest{step, leader.planned(), leader.executor().layout_of_states(), of,
                         on,   run_passes};
  };
  const auto shorter = [=](const TrainingStep& step, std::int64_t rows, const Executable& whole) {
    return follow_in_short_batch(follows(step, whole, options, cluster), rows, whole.batch_rows(),
                                 whole.executor().arena_bytes());
  };
  const auto later = [=](const TrainingStep& step, const Executable& leader) {
    CompiledStep planned = follow_later(follows(step, leader, options, cluster));
    note_compiled(planned, options, cluster);
    return planned;
  };
  std::vector<Executable> loaded;
  loaded.reserve(steps.size());
  const TrainingStep first = with_states_of(steps.front(), steps.subspan(1));
  for (const TrainingStep& given : steps) {
    const Executable* leader = loaded.empty() ? nullptr : &loaded.front();
    const TrainingStep& step = leader ? given : first;
    CompiledStep planned = leader
                               ? follow(follows(step, *leader, options, cluster), loaded.size() + 1)
                               : compile(step, options, cluster, plan_path);
    const bool same_step = leader && step.counts_with_first;
    if (same_step) check_counting(planned.graph, leader->graph(), loaded.size() + 1);
    note_compiled(planned, options, cluster);
    loaded.emplace_back(std::move(planned), step, cluster, options.options.executor,
                        ExecutableRelations{leader, same_step, shorter, later});
  }
  return loaded;
}

}  // namespace

void require_devices(const Cluster& cluster) {
  runtime::require_devices(cluster.backend, cluster.num_devices());
}

CompiledStep plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster) {
  return compile(step, options_of(method), cluster, nullptr);
}

CompiledStep plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster,
                       const std::string& path) {
  return compile(step, options_of(method), cluster, &path);
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

std::vector<Executable> load_plan(std::span<const TrainingStep> steps, const Method& method,
                                  const Cluster& cluster, const std::string& path) {
  return executables(steps, method, cluster, &path);
}

std::array<Executable, 2> load_plan(const TrainingStep& first, const TrainingStep& second,
                                    const Method& method, const Cluster& cluster,
                                    const std::string& path) {
  const TrainingStep steps[] = {first, second};
  const std::vector<Executable> both = executables(steps, method, cluster, &path);
  return {both[0], both[1]};
}

}  // namespace alpa
