// models/common/training.cc — trains a number of steps, and compares the result with one device
#include "models/common/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "models/common/curve.h"
#include "models/common/progress.h"

namespace models {

using namespace alpa;

Run train(const Task& task, Executable executable, std::int64_t steps, std::uint64_t seed,
          const Telling& telling, Checkpoints* saved) {
  Run run{executable, executable.init(seed), {}};
  if (task.load) task.load(run.state);
  const Batches& examples = task.training.value();
  const std::int64_t epochs = (steps + examples.size() - 1) / examples.size();
  std::optional<ResumedBatches> rest;
  if (saved) rest.emplace(saved->resume(executable, run.state, examples, epochs));
  const std::int64_t first = run.result.first_step = run.state.step();
  Progress progress(first, steps, task.items_per_step, task.item,
                    flops_per_step(executable.graph()), executable.memory_bytes(),
                    telling.peak_rate);
  LossLog log(telling.log, first);
  // A step's loss is read when the next one has been started: on CUDA the
  // devices never wait for the host.
  std::optional<StepResult> under_way;
  const auto finish = [&] {
    run.result.losses.push_back(under_way->loss());
    log.add(run.result.losses.back(), run.result.seconds[run.result.losses.size() - 1]);
    if (telling.progress) progress.step(run.result.losses.back());
  };
  const auto run_step = [&](const BatchData& batch) {
    const auto start = std::chrono::steady_clock::now();
    StepResult next = executable.run(run.state, batch);
    if (under_way) finish();
    under_way = std::move(next);
    if (telling.check_replicas > 0 && run.state.step() % telling.check_replicas == 0)
      run.state.check_replicas();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    run.result.seconds.push_back(taken.count());
  };
  if (rest) {
    auto batch = rest->begin();
    for (; batch != rest->end() && run.state.step() < steps; ++batch) run_step(*batch);
    if (batch != rest->end() && run.state.step() > first) saved->save(run.state);
    saved->wait();
  } else {
    for (const auto& batch : examples.epochs(0, epochs)) {
      if (run.state.step() == steps) break;
      run_step(batch);
    }
  }
  if (under_way) finish();
  run.result.measured_bytes = executable.measured_bytes(run.state);
  run.result.exchange_bytes = executable.exchange_bytes();
  run.result.communication = executable.measured_traffic();
  return run;
}

double RunResult::median_seconds() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  return n == 0 ? 0 : (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

DType computed_in(const Graph& graph) {
  const auto flops = [&](DType type) { return flops_per_step(graph, type); };
  return std::ranges::max({f32, bf16, f16, f64}, {}, flops);
}

Executable serial_reference(const TrainingStep& step, int num_micro_batches, const Cluster& cluster,
                            bool reproducible) {
  Serial method{.num_micro_batches = num_micro_batches, .executor = {.reproducible = reproducible}};
  method.memory_budget_bytes = std::numeric_limits<std::int64_t>::max() / 2;
  return parallelize(step, method, cluster);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  invariant(a.size() == b.size(), "difference of {} and {} numbers", a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return std::numeric_limits<double>::quiet_NaN();
    if (a[i] != b[i]) largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

double max_abs_parameter_difference(const Run& run, const Run& reference) {
  double largest = 0;
  for (const std::string& name : parameter_names(run.executable.graph())) {
    const double here = largest_difference(run.state[name].to_host().to_doubles(),
                                           reference.state[name].to_host().to_doubles());
    if (std::isnan(here)) return here;
    largest = std::max(largest, here);
  }
  return largest;
}

}  // namespace models
