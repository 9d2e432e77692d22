// models/common/run.cc — plans a task, trains it and reports
#include "models/common/run.h"

#include "models/common/interrupt.h"
#include "models/common/report.h"
#include "tools/common/matmul_rate.h"
#include "tools/common/processes.h"

namespace programs {

using namespace alpa;

namespace {

/// Time to measure the devices' peak in.
constexpr double kPeakSeconds = 0.1;

void report(const Flags& flags, const CompiledStep& planned, const Cluster& cluster,
            const RunResult* run) {
  fmt::print("{}", summary_text(planned, run));
  if (flags.timeline) fmt::print("{}", timeline(planned));
  if (!flags.explain.empty())
    fmt::print("\n{}",
               explain(planned, cluster, flags.explain == "full" ? Detail::full : Detail::summary));
  if (!flags.save_plan.empty()) write_file(flags.save_plan, to_json(planned));
  if (!flags.json.empty()) write_file(flags.json, report_json(planned, run));
}

/// The step for the task's inputs, then those for shorter ones, which count with it.
std::vector<TrainingStep> steps_of(const Flags& flags, const Task& task) {
  std::vector<TrainingStep> steps = {step_of(flags, task)};
  Task other = task;
  for (const auto& inputs : task.shorter) {
    other.inputs = inputs;
    steps.push_back(step_of(flags, other));
    steps.back().counts_with_first = true;
  }
  return steps;
}

/// The steps, and, of a task with a model, the evaluation behind them, which follow the first one's
/// plan.
std::vector<Executable> plan_or_load(const Flags& flags, std::vector<TrainingStep> steps,
                                     const Task& task, const Method& method,
                                     const Cluster& cluster) {
  if (task.model)
    steps.push_back(evaluation_step(
        task.inputs, task.model,
        {.precision = precision_of(flags), .lora = task.lora, .quantized = task.quantized}));
  if (!flags.load_plan.empty()) return load_plan(steps, method, cluster, flags.load_plan);
  const PlanningInterrupt interrupt(!flags.save_plan.empty());
  std::vector<Executable> found = parallelize(steps, interrupt.ending(method), cluster);
  interrupt.exit_with(found[0].planned(), flags.save_plan);
  return found;
}

/// Where --checkpoint saves the run. Throws Error if another run is there that is not resumed.
std::optional<Checkpoints> checkpoints_of(const Flags& flags) {
  if (flags.checkpoint.empty()) return {};
  Checkpoints saved(flags.checkpoint, {.every = flags.checkpoint_every,
                                       .keep = static_cast<int>(flags.keep),
                                       .check_replicas = flags.check_replicas != 0});
  const std::optional<std::int64_t> newest = saved.newest();
  require(flags.resume || !newest,
          "--checkpoint {}: holds a run up to step {}; give --resume to continue it, or another "
          "directory",
          excerpt(flags.checkpoint), newest.value_or(0));
  return saved;
}

ReportOptions report_options_of(const Flags& flags, const Cluster& cluster,
                                const TrainingStep& step, const Graph& graph) {
  ReportOptions options{.progress = !flags.quiet,
                        .log = flags.log,
                        .board = flags.tensorboard,
                        .scalars = step.scalars,
                        .check_replicas = flags.check_replicas.value_or(0)};
  if (options.progress || !options.board.empty())
    options.peak_rate = cli::matmul_rate(cluster, computed_in(graph), kPeakSeconds);
  return options;
}

/// Plans without running, and reports the plan.
void plan_and_report(const Flags& flags, const Cluster& cluster, const Task& task) {
  const PlanningInterrupt interrupt(!flags.save_plan.empty());
  const CompiledStep planned =
      plan_only(step_of(flags, task), interrupt.ending(make_method(flags, flags.method)), cluster);
  interrupt.exit_with(planned, flags.save_plan);
  report(flags, planned, cluster, nullptr);
  if (!flags.trace.empty()) write_file(flags.trace, predicted_trace(planned));
  if (!flags.report.empty()) {
    write_file(flags.report, alpa::report(planned, cluster));
    fmt::print("report      {}\n", flags.report);
  }
}

Run train_and_report(const Flags& flags, const Cluster& cluster, const Task& task) {
  require(!flags.compare || cli::processes() == 1,
          "--compare trains on one device too, which {} processes cannot share; start one process",
          cli::processes());
  const std::vector<TrainingStep> steps = steps_of(flags, task);
  const std::vector<Executable> found =
      plan_or_load(flags, steps, task, make_method(flags, flags.method), cluster);
  const Executable& executable = found[0];
  const auto shorter = [&](std::span<const Executable> all) {
    return all.subspan(1, task.shorter.size());
  };
  const auto seed = static_cast<std::uint64_t>(flags.seed);
  std::optional<Checkpoints> saved = checkpoints_of(flags);
  Run run = train(task, executable, flags.steps, seed,
                  report_options_of(flags, cluster, steps[0], executable.graph()),
                  saved ? &*saved : nullptr, shorter(found));
  if (flags.compare) {
    const std::vector<Executable> reference =
        serial_reference(steps, executable.graph().num_micro_batches, cluster, flags.reproducible);
    const Run serial =
        train(task, reference[0], flags.steps, seed, {}, nullptr, shorter(reference));
    run.result.max_abs_parameter_difference = max_abs_parameter_difference(run, serial);
  }
  if (task.test) {
    run.result.test = found.back().run(run.state, task.test->epoch(0)).metrics.values();
    std::map<std::string, double> curves;
    for (const auto& [name, value] : run.result.test) curves["test_" + name] = value;
    run.add_to_board(run.state.step(), curves);
  }
  report(flags, executable.planned(), cluster, &run.result);
  if (!flags.plot.empty()) write_file(flags.plot, loss_svg(run.result.losses));
  if (!flags.trace.empty()) {
    write_file(flags.trace, run.last.trace());
    fmt::print("trace       {}\n", run.last.trace_summary());
  }
  if (!flags.report.empty()) {
    run.executable.report(flags.report);
    fmt::print("report      {}\n", flags.report);
  }
  return run;
}

}  // namespace

TrainingStep step_of(const Flags& flags, const Task& task) {
  if (task.step) return *task.step;
  return training_step(task.inputs, task.model, make_optimizer(flags),
                       {.lora = task.lora,
                        .quantized = task.quantized,
                        .precision = precision_of(flags),
                        .remat = remat_of(flags)});
}

void run_task(Flags flags, const std::function<Task()>& make_task,
              const std::function<void(Run&)>& after) {
  const Cluster cluster = make_cluster(flags);
  if (flags.plan_only) return plan_and_report(flags, cluster, make_task());
  require_devices(cluster);
  fmt::print("backend     {}\n", backend_line(flags, cluster));
  const Task task = make_task();
  if (flags.epochs > 0) flags.steps = flags.epochs * task.training->size();
  Run run = train_and_report(flags, cluster, task);
  after(run);
  if (!run.unwritten.empty()) fail("{}", run.unwritten);
}

}  // namespace programs
