#pragma once
/// The training step that several benchmarks run: LAYERS × (Dense + bias, ReLU between), mean squared
/// error, Adam.
#include <alpa/alpa.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>

namespace alpa::bench {

struct MlpSizes {
  std::int64_t dim = 1024, batch = 1024, layers = 10;
};

inline Array random_array(Shape shape) {
  Array array({f32, std::move(shape)});
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (float& x : array.mutable_elements_as<float>()) x = normal(engine);
  return array;
}

inline TrainingStep mlp_step(const MlpSizes& sizes) {
  auto mlp = std::make_shared<nn::Sequential>();
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    mlp->add(nn::Dense(sizes.dim));
    if (i + 1 < sizes.layers) mlp->add(nn::ReLU());
  }
  const TensorType type{f32, {sizes.batch, sizes.dim}};
  return training_step(
      {{"x", type}, {"y", type}},
      [mlp](const Batch& batch) { return mean(square((*mlp)(batch["x"]) - batch["y"])); },
      optim::Adam{.learning_rate = 1e-7});  // so small that nothing converges to denormal numbers
}

/// Runs one step each time it is called.
inline std::function<void()> mlp_runner(const MlpSizes& sizes, const Method& method, int devices) {
  auto executable =
      std::make_shared<Executable>(parallelize(mlp_step(sizes), method, Cluster::local(devices)));
  auto state = std::make_shared<TrainState>(executable->init(0));
  auto batch = std::make_shared<std::map<std::string, Array>>();
  (*batch)["x"] = random_array({sizes.batch, sizes.dim});
  (*batch)["y"] = random_array({sizes.batch, sizes.dim});
  return [=] { executable->run(*state, *batch); };
}

}  // namespace alpa::bench
