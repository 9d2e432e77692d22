#pragma once
/// Steps of four layers nn::Dense(width) and tanh, each a layer of pipelines; Adam.
#include <functional>
#include <vector>

#include "alpa/alpa.h"

namespace alpa::testing {

inline std::function<Value(const Batch&)> staged_mlp_loss(std::int64_t width) {
  const std::vector<nn::Dense> layers = {nn::Dense(width), nn::Dense(width), nn::Dense(width),
                                         nn::Dense(width)};
  return [layers](const Batch& b) {
    Value h = b["x"];
    for (std::size_t l = 0; l < layers.size(); ++l) {
      h = tanh(layers[l](h));
      if (l + 1 < layers.size()) h = mark_pipeline_boundary(h);
    }
    return mean(square(h));
  };
}

inline TrainingStep staged_mlp_step(std::int64_t rows, std::int64_t width) {
  return training_step({{"x", {f32, {rows, width}}}}, staged_mlp_loss(width),
                       optim::Adam{.learning_rate = 0.01});
}

inline TrainingStep staged_mlp_evaluation(std::int64_t rows, std::int64_t width) {
  return evaluation_step({{"x", {f32, {rows, width}}}}, staged_mlp_loss(width));
}

}  // namespace alpa::testing
