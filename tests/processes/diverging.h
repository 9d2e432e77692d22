#pragma once
/// A small training that can go another way than the same training in other processes.
#include <alpa/alpa.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/processes/other_processes.h"

namespace alpa::testing {

/// 0.01 in every step, but not for these ways.
inline LearningRate diverging_rate(const std::string& way) {
  if (way == "rate") return 0.05;
  if (way == "schedule") return [](std::int64_t step) { return step == 2 ? 0.02 : 0.01; };
  return 0.01;
}

inline TrainingStep diverging_step(const std::string& way, std::int64_t rows) {
  std::vector<nn::Dense> dense;
  nn::DenseOptions options;
  if (way == "initial") options.kernel = nn::lecun_normal;
  for (int l = 0; l < (way == "layers" ? 3 : 2); ++l) dense.emplace_back(4, options);
  const auto loss = [dense](const Batch& batch) -> LossAndMetrics {
    Value h = batch["x"];
    for (const nn::Dense& layer : dense) h = tanh(layer(h));
    return {mean(square(h)), {}};
  };
  const optim::Sgd sgd{.learning_rate = diverging_rate(way),
                       .weight_decay = way == "decay" ? 0.25 : 0.5};
  return training_step({{"x", {f32, {rows, 4}}}}, loss, sgd,
                       {.clip_global_norm = way == "clip" ? 2.0 : 1.0});
}

/// Rows that each process makes for itself.
inline Batches diverging_batches(const std::string& way, std::int64_t rows) {
  const std::vector<std::int32_t> tokens(4 * rows + 1, way == "text" ? 2 : 1);
  if (way == "text" || way == "window")
    return token_batches(Tokens(tokens), rows, way == "window" ? 3 : 4);
  return token_batches(Tokens(std::vector<std::int32_t>(4 * rows + 1, 1)), rows, 4);
}

inline Method diverging_method(const std::string& way) {
  if (way == "method") return Zero3Parallel{};
  DataParallel method;
  if (way == "threads") method.executor.threads_per_device = 3;
  if (way == "finite") method.executor.check_finite = true;
  return method;
}

/// Trains three steps on so many devices and reads a weight, but goes the given way.
inline void train_diverging(const std::string& way, int devices) {
  if (way == "never joins") {  // and ends when the others wait for it
    const auto joins = [] {
      return std::ranges::any_of(processes::siblings(), &processes::Sibling::joins);
    };
    while (!joins()) ::usleep(10'000);
    return;
  }
  if (way == "fails at once") fail("no ink");
  if (way == "sleeps") ::sleep(60);
  const std::int64_t rows = (way == "shape" ? 4 : 2) * devices;
  const Executable step =
      parallelize(diverging_step(way, rows), diverging_method(way), Cluster::local(devices));
  TrainState state = step.init(way == "seed" ? 2 : 1);
  std::vector<float> x(static_cast<std::size_t>(rows) * 4, 0.5F);
  if (way == "data") x.back() = 0.25F;
  const int steps = way == "extra run" ? 4 : way == "missing run" ? 2 : 3;
  for (int i = 0; i < steps; ++i) {
    if (i == 1 && way == "throws") fail("no ink");
    if (i == 1 && way == "ends") return;
    if (i == 1 && way == "vanishes") ::_exit(0);
    if (i == 1 && way == "crashes") std::abort();
    step.run(state, {{"x", Array(x, {rows, 4})}});
  }
  const Array read = state[way == "reads" ? "dense1.bias" : "dense0.bias"];
  require(read.elements() == 4, "a bias has {} elements", read.elements());
}

}  // namespace alpa::testing
