// models/pipeline_mlp.cc — Alpa's pipeline tutorial: one MLP, on one device, in stages at marked
// boundaries, and in stages that are found
#include <alpa/alpa.h>

#include <algorithm>
#include <cmath>

#include "tools/common/flag_table.h"

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 2048, kDim = 256;

/// Two pairs of layers, with a boundary between them.
Value mlp(Value x) {
  static const nn::Dense first(4 * kDim, {.name = "first"}), second(kDim, {.name = "second"}),
      third(4 * kDim, {.name = "third"}), fourth(kDim, {.name = "fourth"});
  x = relu(second(relu(first(x))));
  x = mark_pipeline_boundary(x);
  return relu(fourth(relu(third(x))));
}

BatchData made_batch() {
  std::vector<float> x(kBatch * kDim), y(kBatch * kDim);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(0.37F * static_cast<float>(i));
    y[i] = std::abs(x[i]);
  }
  return {{"x", Array(x, {kBatch, kDim})}, {"y", Array(y, {kBatch, kDim})}};
}

using Parameters = std::map<std::string, Array>;

/// The parameters after one step.
Parameters trained(const TrainingStep& step, const Method& method, const Cluster& cluster) {
  const Executable executable = parallelize(step, method, cluster);
  TrainState state = executable.init(0);
  executable.run(state, made_batch());
  Parameters parameters;
  for (const DistributedArray& parameter : state.parameters())
    parameters.emplace(parameter.name(), parameter.to_host());
  fmt::print("{}\n", to_string(executable.planned()));
  return parameters;
}

/// The largest difference of an element.
double difference(const Parameters& a, const Parameters& b) {
  double largest = 0;
  for (const auto& [name, array] : a) {
    const std::vector<double> left = array.to_doubles(), right = b.at(name).to_doubles();
    for (std::size_t i = 0; i < left.size(); ++i)
      largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

int run(int argc, char** argv) {
  if (cli::parse(argc, argv, "Alpa's pipeline tutorial: one MLP on one device and in stages.", {}))
    return 0;
  const TrainingStep step = training_step(
      {{"x", {f32, {kBatch, kDim}}}, {"y", {f32, {kBatch, kDim}}}},
      [](const Batch& b) { return nn::mean_squared_error(mlp(b["x"]), b["y"]); },
      optim::Sgd{.learning_rate = 0.1});
  const Cluster cluster = Cluster::local(4, "cpu");
  const Parameters serial = trained(step, Serial{}, cluster);
  const PipeshardParallel marked{.num_micro_batches = 16, .layers = ManualLayers{}};
  const PipeshardParallel found{
      .num_micro_batches = 16, .layers = AutoLayers{4}, .stages = AutoStages{}};
  for (const PipeshardParallel& method : {marked, found})
    fmt::print("difference  {:.1e} at most in any parameter\n",
               difference(serial, trained(step, method, cluster)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("alpa-pipeline-mlp", run, argc, argv); }
