// Predicted and measured seconds of a step under many plans, with and without stages, after the
// machine was measured (`profile`): the median error, and Kendall's tau of the two orders.
//   bench_prediction [--devices N] [--rounds N] [--cluster FILE]
#include <alpa/alpa.h>

#include <cmath>
#include <ctime>

#include "arguments.h"
#include "interleave.h"
#include "mlp.h"
#include "report.h"
#include "src/base/timing.h"
#include "tests/support/gpt_stack.h"

using namespace alpa;

namespace {

struct Plan {
  std::string name;
  Executable executable;
  TrainState state;
  BatchData batch;
  std::vector<double> seconds = {};

  double predicted() const { return executable.planned().plan.cost.objective_seconds; }
};

BatchData batch_of(const TrainingStep& step) {
  BatchData batch;
  for (const BatchInput& input : step.inputs)
    batch.emplace(input.name, bench::random_array(input.type.shape));
  return batch;
}

/// The methods that are compared on a model of so many layers.
std::vector<std::pair<std::string, Method>> methods(int devices) {
  std::vector<std::pair<std::string, Method>> all{
      {"data", DataParallel{}},
      {"zero2", Zero2Parallel{}},
      {"shard", ShardParallel{}},
      {"shard, 4 mb", ShardParallel{.num_micro_batches = 4}}};
  for (const ScheduleKind schedule :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble})
    for (int micro_batches : {2, 8})
      all.emplace_back(fmt::format("{} {} mb", name_of(schedule), micro_batches),
                       PipeshardParallel{.num_micro_batches = micro_batches,
                                         .layers = AutoLayers{devices},
                                         .stages = UniformStages{devices},
                                         .schedule = schedule});
  return all;
}

/// (pairs in the same order - pairs in opposite order) / all pairs.
double kendall_tau(const std::vector<Plan>& plans) {
  double score = 0, pairs = 0;
  for (std::size_t i = 0; i < plans.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double measured = median(plans[i].seconds) - median(plans[j].seconds),
                   predicted = plans[i].predicted() - plans[j].predicted();
      score += measured * predicted > 0 ? 1 : -1;
      ++pairs;
    }
  return score / pairs;
}

void add_plans(const std::string& model, const TrainingStep& step, const Cluster& cluster,
               std::vector<Plan>& plans) {
  for (const auto& [name, method] : methods(cluster.num_devices())) {
    const Executable executable = parallelize(step, method, cluster);
    plans.push_back({model + ", " + name, executable, executable.init(0), batch_of(step)});
  }
}

void run(const Cluster& cluster, int rounds) {
  std::vector<Plan> plans;
  add_plans("MLP 4 x 512, 512 rows", bench::mlp_step({512, 512, 4}), cluster, plans);
  add_plans("MLP 8 x 1024, 256 rows", bench::mlp_step({1024, 256, 8}), cluster, plans);
  add_plans(
      "GPT-like",
      testing::gpt_step({.layers = 2, .batch = 8, .sequence = 128, .hidden = 256, .heads = 4}),
      cluster, plans);
  for (int round = -1; round < rounds; ++round)
    for (Plan& plan : plans) {
      const Stopwatch watch;
      plan.executable.run(plan.state, plan.batch).metrics["loss"];
      if (round >= 0) plan.seconds.push_back(watch.seconds());
    }
  std::vector<double> errors;
  for (const Plan& plan : plans) {
    const double measured = median(plan.seconds);
    errors.push_back(std::abs(plan.predicted() - measured) / measured);
    bench::print_row(plan.name, {{"measured_seconds", measured},
                                 {"predicted_seconds", plan.predicted()},
                                 {"predicted_over_measured", plan.predicted() / measured}});
  }
  bench::print_row("all", {{"plans", static_cast<double>(plans.size())},
                           {"median_error", median(errors)},
                           {"kendall_tau", kendall_tau(plans)}});
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 2, rounds = 9;
  std::string cluster;
  return bench::run(
      argc, argv, "Predicted and measured time of plans.",
      {cli::whole("--devices", &devices, "CPU devices", 1, 64),
       cli::whole("--rounds", &rounds, "Counted rounds", 1, 1000),
       cli::text("--cluster", &cluster, "cluster file; without it, this machine is measured")},
      [&] { run(cluster.empty() ? profile(devices) : Cluster::from_file(cluster), rounds); });
}
