// models/pipeline_mlp.cc — Alpa's pipeline tutorial: one MLP, on one device, in stages at marked
// boundaries, and in stages that are found
#include <cmath>

#include "models/common/model.h"
#include "models/common/training.h"

namespace programs {

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 2048, kDim = 256;

/// Two pairs of layers, with a boundary between them.
Value two_pairs(Value x) {
  static const nn::Dense first(4 * kDim, {.name = "first"}), second(kDim, {.name = "second"}),
      third(4 * kDim, {.name = "third"}), fourth(kDim, {.name = "fourth"});
  x = relu(second(relu(first(x))));
  x = mark_pipeline_boundary(x);
  return relu(fourth(relu(third(x))));
}

Batches made_batch() {
  std::vector<float> x(kBatch * kDim), y(kBatch * kDim);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(0.37F * static_cast<float>(i));
    y[i] = std::abs(x[i]);
  }
  return batches({{"x", Array(x, {kBatch, kDim})}, {"y", Array(y, {kBatch, kDim})}}, kBatch);
}

void train_in_stages(Flags&) {
  const TensorType type{f32, {kBatch, kDim}};
  const Task task{.model = [](const Batch& b) -> LossAndMetrics {
                    return nn::mean_squared_error(two_pairs(b["x"]), b["y"]);
                  },
                  .inputs = {{"x", type}, {"y", type}},
                  .training = made_batch()};
  const TrainingStep step =
      training_step(task.inputs, task.model, optim::Sgd{.learning_rate = 0.1});
  const auto one_step = [&](const Method& method) {
    Run run = train(task, parallelize(step, method, Cluster::local(4, "cpu")), 1, 0);
    fmt::print("{}\n", to_string(run.executable.planned()));
    return run;
  };
  const Run serial = one_step(Serial{});
  const PipeshardParallel marked{.num_micro_batches = 16, .layers = ManualLayers{}};
  const PipeshardParallel found{
      .num_micro_batches = 16, .layers = AutoLayers{4}, .stages = AutoStages{}};
  for (const PipeshardParallel& method : {marked, found})
    fmt::print("difference  {:.1e} at most in any parameter\n",
               max_abs_parameter_difference(one_step(method), serial));
}

}  // namespace

const Model pipeline_mlp{
    .name = "pipeline-mlp",
    .purpose = "Alpa's pipeline tutorial: one MLP on one device and in stages.",
    .rows = [](Flags&) { return std::vector<cli::Flag>(); },
    .train = train_in_stages,
};

}  // namespace programs
