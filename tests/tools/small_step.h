#pragma once
/// A step whose plans the tests of tools read.
#include <alpa/alpa.h>

namespace alpa::testing {

inline TrainingStep make_step() {
  nn::Sequential mlp{nn::Dense(64), nn::ReLU(), nn::Dense(16)};
  return training_step(
      {{"x", {f32, {32, 16}}}, {"y", {f32, {32, 16}}}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); }, optim::Adam{});
}

}  // namespace alpa::testing
