#pragma once
/// The training step of an MLP as a user writes it: `layers` × nn::Dense(128), an activation
/// between them, mean squared error, Adam; 64 examples a batch.
#include <memory>

#include "alpa/alpa.h"

namespace alpa::testing {

template <class Activation>
TrainingStep dense_mlp_step(DType dtype, int layers) {
  constexpr std::int64_t kWidth = 128, kBatch = 64;
  auto mlp = std::make_shared<nn::Sequential>();
  for (int i = 0; i < layers; ++i) {
    mlp->add(nn::Dense(kWidth));
    if (i + 1 < layers) mlp->add(Activation());
  }
  const TensorType type{dtype, {kBatch, kWidth}};
  return training_step(
      {{"x", type}, {"y", type}},
      [mlp](const Batch& batch) { return nn::mean_squared_error((*mlp)(batch["x"]), batch["y"]); },
      optim::Adam{.learning_rate = 1e-3});
}

}  // namespace alpa::testing
