// models/mlp.cc — a multi-layer perceptron; --demo compares all methods on it
#include <algorithm>
#include <array>

#include "models/common/data.h"
#include "models/common/model.h"
#include "models/common/report.h"
#include "models/common/run.h"
#include "tools/common/processes.h"

namespace programs {

using namespace alpa;

namespace {

struct MlpSize {
  std::string_view name;
  std::int64_t dim, layers;
};
/// For trials and Alpa's tutorial; and one that fills cards.
constexpr std::array<MlpSize, 3> kMlpSizes{
    {{"tiny", 64, 4}, {"tutorial", 512, 10}, {"large", 4096, 16}}};

/// Most dense layers: each is at least 16 nodes when it is trained.
constexpr std::int64_t kMostDense = kMaxGraphNodes / 16;

std::vector<cli::Flag> rows_of_mlp(Flags& flags) {
  using namespace cli;
  ModelRows own;
  own.model = {
      whole("--dim", &flags.dim, "width of every second layer", 1),
      whole("--hidden-factor", &flags.hidden_factor, "the layers between are this many times wider",
            1),
      number_of_layers(&flags.layers, "dense layers", 1, kMostDense),
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

/// Dense layers of alternating width, ReLU between them: "pairs.0.up", "pairs.0.down", …, "head",
/// which has `outputs` features.
nn::Sequential make_mlp(const Flags& flags, std::int64_t outputs, bool final_relu) {
  nn::Sequential mlp;
  const std::int64_t wide = flags.dim * flags.hidden_factor;
  for (std::int64_t i = 2; i < flags.layers; i += 2) {
    const nn::Sequential two({nn::Dense(wide, {.name = "up"}), nn::ReLU(),
                              nn::Dense(flags.dim, {.name = "down"}), nn::ReLU()},
                             {.name = fmt::format("pairs.{}", i / 2 - 1)});
    mlp.add(marks_remat(flags) ? nn::Layer(nn::remat(two)) : nn::Layer(two));
  }
  if (flags.layers % 2 == 0) mlp.add(nn::Dense(wide, {.name = "last"})).add(nn::ReLU());
  mlp.add(nn::Dense(outputs, {.name = "head"}));
  if (final_relu) mlp.add(nn::ReLU());
  return mlp;
}

/// Predicts classes, or values by the mean of squared errors.
Task mlp_task(const Flags& flags) {
  const TaskData data = load_data(flags);
  const bool classifies = data.classes > 0;
  return dataset_task(
      flags, data,
      [classifies, mlp = make_mlp(flags, classifies ? data.classes : data.y.shape[1],
                                  flags.data == "tutorial")](const Batch& b) -> LossAndMetrics {
        const Value found = mlp(b["x"]);
        if (!classifies) return nn::mean_squared_error(found, b["y"]);
        return {nn::cross_entropy(found, b["y"]), {{"accuracy", nn::accuracy(found, b["y"])}}};
      });
}

std::string plan_name(const Flags& flags) {
  return flags.method == "shard" ? "automatic" : flags.method;
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
std::string comparison_text(const Flags& flags, const Cluster& cluster, const Task& task) {
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
            serial_reference({&step, 1},
                             std::get<Serial>(make_method(flags, "serial")).num_micro_batches,
                             cluster, flags.reproducible)
                .front());
  constexpr std::pair<const char*, const char*> kMethods[] = {
      {"data", "data parallel"}, {"zero2", "ZeRO-2"}, {"zero3", "ZeRO-3"}, {"shard", "automatic"}};
  for (const auto& [name, title] : kMethods)
    add_row(title, parallelize(step, make_method(flags, name), cluster));
  Method stages = make_method(flags, "pipeline");
  std::get<PipeshardParallel>(stages).num_micro_batches = kComparedMicroBatches;
  add_row("two stages", parallelize(step, stages, cluster));
  return table_text(rows);
}

void print_comparison(const Flags& flags, const Task& task, const Run& run) {
  fmt::print(
      "\nThe same step under every method: median of {} steps, "
      "bytes per device (peak) and bytes each device sends per step,\nlargest difference of a "
      "parameter from the {} run after {} steps (sums in another order round "
      "differently,\nand Adam makes a step of up to the learning rate of a gradient that is "
      "nothing but rounding)\n{}",
      kComparedSteps, cli::processes() == 1 ? "single-device" : "data-parallel", kComparedSteps,
      comparison_text(flags, make_cluster(flags), task));
  fmt::print("\nWhere the {} plan puts every parameter\n{}", plan_name(flags),
             sharding_text(run.executable.planned()));
  if (!flags.report.empty())
    fmt::print("\nOpen {} in a browser to look at the plan.\n", flags.report);
}

/// Values of --demo, which counts epochs.
void set_demo(Flags& flags) {
  if (!flags.demo) return;
  follow(flags, "--data", flags.data, std::string("fashion-mnist"));
  for (const auto& [flag, target, value] :
       {std::tuple("--dim", &flags.dim, 128),
        std::tuple("--hidden-factor", &flags.hidden_factor, 2),
        std::tuple("--layers", &flags.layers, 3), std::tuple("--epochs", &flags.epochs, 6)})
    follow(flags, flag, *target, std::int64_t{value});
}

void train_mlp(Flags& flags) {
  set_demo(flags);
  cli::require_effect(flags.given, "--steps", flags.epochs > 0,
                      flags.demo ? "with --demo, which counts --epochs" : "beside --epochs");
  Task task;
  const auto make_task = [&] {
    task = mlp_task(flags);
    if (flags.demo && !flags.plan_only)
      fmt::print("Training {} for {} epochs on {} devices with the {} plan.\n", flags.data,
                 flags.epochs, make_cluster(flags).num_devices(), plan_name(flags));
    return task;
  };
  run_task(flags, make_task, [&](const Run& run) {
    if (flags.demo) print_comparison(flags, task, run);
  });
}

}  // namespace

const Model mlp{
    .name = "mlp",
    .purpose = "Trains a multi-layer perceptron with an automatic parallel plan.",
    .sizes = names_of(kMlpSizes),
    .initial = {.batch = 512, .data = "tutorial", .layers = 10},
    .rows = rows_of_mlp,
    .publish =
        [](Flags& f) {
          const MlpSize& size = *std::ranges::find(kMlpSizes, f.model, &MlpSize::name);
          follow(f, "--dim", f.dim, size.dim);
          follow(f, "--layers", f.layers, size.layers);
        },
    .task = mlp_task,
    .train = train_mlp,
};

}  // namespace programs
