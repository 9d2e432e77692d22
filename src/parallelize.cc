// src/parallelize.cc — the reader's map: from a training step to device programs. `run_passes` has
// a line per compiler pass, in order; src/compile/search.h says how the plan is chosen.
#include "alpa/parallelize.h"

#include "src/base/file.h"
#include "src/base/timing.h"
#include "src/compile/follow.h"
#include "src/compile/lower_program.h"
#include "src/compile/search.h"
#include "src/report/pipeline_forecast.h"
#include "src/spmd/join_stages.h"

namespace alpa {
namespace {

constexpr FileKind kPlanFile{"plan file", 1 << 28};

/// From a planned graph to device programs.
CompiledStep run_passes(const Graph& graph, Plan plan, const LoweringTarget& target) {
  const PassLog& log = target.log;
  log.finished("searching");
  for (StagePlan& stage : plan.stages) verify(stage.plan, stage.graph);
  set_forecast(plan.stages, target.model);
  spmd::SpmdProgram program = spmd::partition(graph, plan, target.cluster);
  set_forecast(plan, program, target.cluster);
  CompiledStep planned{.graph = graph, .plan = std::move(plan)};
  log.write("plan.json", [&] { return to_json(planned); });
  program = log.check("partitioned.txt", std::move(program));
  if (target.backend.fuses_epilogue)
    program = log.check("epilogues.txt", fuse_epilogues(program, target.backend.fuses_epilogue));
  if (target.backend.launches) program = log.check("squared_norms.txt", fuse_squares(program));
  program = log.check("fused.txt", fuse_elementwise(program));
  log.finished("partitioning and fusing");
  return lower_within_budget(planned, program, target);  // buckets collectives, lowers
}

/// The first step of a call: planned, or with the plan of a file.
CompiledStep compile(const TrainingStep& step, const MethodOptions& method, const Cluster& cluster,
                     const std::string* plan_path) {
  const Stopwatch watch;
  check_options(method, cluster);
  const PassLog log(method.options.dump_dir);
  const LoweringTarget target{cluster, method.options.executor, memory_budget(method, cluster),
                              log};
  const PlanRequest request{step, method, cluster, log, [&](const Graph& graph, Plan plan) {
                              return run_passes(graph, std::move(plan), target);
                            }};
  CompiledStep planned = plan_path
                             ? plan_from_text(request, read_file(*plan_path, kPlanFile), *plan_path)
                             : search_plan(request);
  planned.seconds = watch.seconds();
  return planned;
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
  std::vector<Executable> loaded;
  loaded.reserve(steps.size());
  for (const TrainingStep& step : steps) {
    const Executable* leader = loaded.empty() ? nullptr : &loaded.front();
    CompiledStep planned = leader
                               ? follow(follows(step, *leader, options, cluster), loaded.size() + 1)
                               : compile(step, options, cluster, plan_path);
    loaded.emplace_back(std::move(planned), step, cluster, options.options.executor,
                        ExecutableRelations{.with = leader, .shorter = shorter});
  }
  return loaded;
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
