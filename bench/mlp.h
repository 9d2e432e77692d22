#pragma once
/// The training step that several benchmarks run: LAYERS × (Dense + bias, ReLU between), mean
/// squared error, Adam. Weights have variance 2 / fan-in, so that no layer's values grow or vanish.
#include <alpa/alpa.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tools/common/flag_table.h"

namespace alpa::bench {

struct MlpSizes {
  std::int64_t dim = 1024, batch = 1024, layers = 10;
};

/// `sizes` as flags.
inline std::vector<cli::Flag> size_flags(MlpSizes& sizes) {
  return {cli::whole("--dim", &sizes.dim, "Units of a layer", 1),
          cli::whole("--batch", &sizes.batch, "Rows of the batch", 1),
          cli::whole("--layers", &sizes.layers, "Layers", 1)};
}

inline Array random_array(Shape shape) {
  Array array({f32, std::move(shape)});
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (float& x : array.mutable_elements_as<float>()) x = normal(engine);
  return array;
}

/// The learning rate is so small that nothing converges, however many steps are measured: gradients
/// that become zero or denormal would change the time.
inline TrainingStep mlp_step(const MlpSizes& sizes, DType dtype = f32) {
  auto mlp = std::make_shared<nn::Sequential>();
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    mlp->add(nn::Dense(sizes.dim));
    if (i + 1 < sizes.layers) mlp->add(nn::ReLU());
  }
  const TensorType type{dtype, {sizes.batch, sizes.dim}};
  return training_step(
      {{"x", type}, {"y", type}},
      [mlp](const alpa::Batch& batch) {
        return nn::mean_squared_error((*mlp)(batch["x"]), batch["y"]);
      },
      optim::Adam{.learning_rate = 1e-7});
}

inline BatchData random_batch(const MlpSizes& sizes, DType dtype = f32) {
  const Array numbers = random_array({sizes.batch, sizes.dim}).cast(dtype);
  return {{"x", numbers}, {"y", numbers}};
}

/// Starts one step each time it is called, and returns its result, whose metrics can be waited for.
inline std::function<StepResult()> mlp_runner(const MlpSizes& sizes, const Method& method,
                                              const Cluster& cluster, DType dtype = f32) {
  auto executable =
      std::make_shared<Executable>(parallelize(mlp_step(sizes, dtype), method, cluster));
  auto state = std::make_shared<TrainState>(executable->init(0));
  auto batch = std::make_shared<BatchData>(random_batch(sizes, dtype));
  return [=] { return executable->run(*state, *batch); };
}

/// The same on devices of the CPU, where a step is over when it returns.
inline std::function<void()> mlp_runner(const MlpSizes& sizes, const Method& method, int devices) {
  return [run = mlp_runner(sizes, method, Cluster::local(devices))] { run(); };
}

}  // namespace alpa::bench
