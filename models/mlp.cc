// models/mlp.cc — alpa-mlp: trains a multi-layer perceptron on CPU or CUDA devices and reports
// predictions of the plan beside measurements
#include <optional>
#include <string_view>

#include "models/common/mlp_task.h"
#include "models/common/report.h"
#include "models/common/run.h"
#include "models/common/text.h"
#include "tools/common/processes.h"

using namespace alpa;
using namespace programs;

namespace {

std::vector<cli::Flag> rows_of_mlp(MlpFlags& flags) {
  using namespace cli;
  ModelRows own;
  own.model = {
      whole("--dim", &flags.dim, "width of every second layer", 1),
      whole("--hidden-factor", &flags.hidden_factor, "the layers between are this many times wider",
            1),
      number_of_layers(&flags.layers, "dense layers", 1, kDenseNodes),
  };
  own.data = {
      text("--data", &flags.data,
           "tutorial, fashion-mnist[:DIR] or FILE.csv (last column: what to predict)"),
      whole("--epochs", &flags.epochs, "passes through the data, instead of --steps; 0: none", 0),
  };
  own.output = {
      on("--demo", &flags.demo, "train a classifier of Fashion-MNIST, then compare all methods")};
  return rows_of(flags, own);
}

/// Other defaults for --demo; flags on the command line still win.
void set_demo_defaults(MlpFlags& flags) {
  flags.data = "fashion-mnist";
  flags.dim = 128;
  flags.hidden_factor = 2;
  flags.layers = 3;
  flags.epochs = 6;
}

/// nullopt if only help was asked for.
std::optional<MlpFlags> read_mlp_flags(int argc, char** argv) {
  MlpFlags flags;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--demo") set_demo_defaults(flags);
  if (programs::read_flags(argc, argv,
                           "Trains a multi-layer perceptron with an automatic parallel plan.",
                           rows_of_mlp(flags), flags))
    return std::nullopt;
  cli::require_effect(flags.given, "--steps", flags.epochs > 0,
                      flags.demo ? "with --demo, which counts --epochs" : "beside --epochs");
  return flags;
}

std::int64_t number_of_steps(const MlpFlags& flags, const Task& task) {
  return flags.epochs > 0 ? flags.epochs * task.training->size() : flags.steps;
}

/// Steps of each method in the comparison.
constexpr std::int64_t kComparedSteps = 5;
/// Micro-batches of the row with stages.
constexpr int kComparedMicroBatches = 4;

std::vector<std::string> comparison_row(const std::string& name, const Run& run, const Run& first) {
  std::vector<std::string> row = {name, fmt::format("{:.4f}", run.result.median_seconds()),
                                  std::to_string(run.executable.memory_bytes()),
                                  std::to_string(run.result.measured_bytes)};
  for (const char* kind :
       {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "transfer"}) {
    const auto found = run.result.communication.find(kind);
    row.push_back(
        found == run.result.communication.end() ? "-" : fmt::format("{:.0f}", found->second.bytes));
  }
  row.push_back(fmt::format("{:.3f}", run.executable.planned().seconds));
  row.push_back(fmt::format("{:.1e}", max_abs_parameter_difference(run, first)));
  return row;
}

/// Every method from the same start: time, memory, communication, and how far its parameters are
/// from those of the first. That is one device, which several processes cannot share.
std::string comparison_text(const MlpFlags& flags, const Cluster& cluster, const Task& task) {
  const TrainingStep step = training_step(task.inputs, task.model, make_optimizer(flags));
  const auto seed = static_cast<std::uint64_t>(flags.seed);
  std::optional<Run> first;
  std::vector<std::vector<std::string>> rows = {
      {"method", "s/step", "planned bytes", "measured bytes", "all_reduce", "reduce_scatter",
       "all_gather", "all_to_all", "transfer", "planning s", "difference"}};
  const auto add_row = [&](const char* title, Executable executable) {
    Run run = train(task, std::move(executable), kComparedSteps, seed);
    rows.push_back(comparison_row(title, run, first ? *first : run));
    if (!first) first = std::move(run);
  };
  if (cli::processes() == 1)
    add_row("single device",
            serial_reference(step, std::get<Serial>(make_method(flags, "serial")).num_micro_batches,
                             cluster, flags.reproducible));
  constexpr std::pair<const char*, const char*> kMethods[] = {
      {"data", "data parallel"}, {"zero2", "ZeRO-2"}, {"zero3", "ZeRO-3"}, {"shard", "automatic"}};
  for (const auto& [name, title] : kMethods)
    add_row(title, parallelize(step, make_method(flags, name), cluster));
  Method stages = make_method(flags, "pipeline");
  std::get<PipeshardParallel>(stages).num_micro_batches = kComparedMicroBatches;
  add_row("two stages", parallelize(step, stages, cluster));
  return table_text(rows);
}

void run_demo(const MlpFlags& flags, const Cluster& cluster) {
  const Task task = mlp_task(flags);
  fmt::print("Training {} for {} epochs on {} devices with the {} plan.\n", flags.data,
             flags.epochs, cluster.num_devices(),
             flags.method == "shard" ? "automatic" : flags.method);
  const Run run = train_and_report(flags, cluster, task, number_of_steps(flags, task));
  fmt::print(
      "\nThe same step under every method: median of {} steps, "
      "bytes per device (peak) and bytes each device sends per step,\nlargest difference of a "
      "parameter from the {} run after {} steps (sums in another order round "
      "differently,\nand Adam makes a step of up to the learning rate of a gradient that is "
      "nothing but rounding)\n{}",
      kComparedSteps, cli::processes() == 1 ? "single-device" : "data-parallel", kComparedSteps,
      comparison_text(flags, cluster, task));
  fmt::print("\nWhere the {} plan puts every parameter\n{}",
             flags.method == "shard" ? "automatic" : flags.method,
             sharding_text(run.executable.planned()));
  if (!flags.report.empty())
    fmt::print("\nOpen {} in a browser to look at the plan.\n", flags.report);
}

int run_mlp(int argc, char** argv) {
  const std::optional<MlpFlags> given = read_mlp_flags(argc, argv);
  if (!given) return 0;
  const MlpFlags& flags = *given;
  const Cluster cluster = make_cluster(flags);
  if (flags.plan_only) return plan_and_report(flags, cluster, mlp_task(flags)), 0;
  require_devices(cluster);
  fmt::print("backend     {}\n", backend_line(flags, cluster));
  if (flags.demo) return run_demo(flags, cluster), 0;
  const Task task = mlp_task(flags);
  train_and_report(flags, cluster, task, number_of_steps(flags, task));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-mlp", run_mlp, argc, argv); }
