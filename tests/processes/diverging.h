#pragma once
/// A small training that can go another way than the same training in other processes.
#include <alpa/alpa.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace alpa::testing {

inline TrainingStep diverging_step(int layers, std::int64_t rows) {
  std::vector<nn::Dense> dense;
  for (int l = 0; l < layers; ++l) dense.emplace_back(4);
  const auto loss = [dense](const Batch& batch) -> LossAndMetrics {
    Value h = batch["x"];
    for (const nn::Dense& layer : dense) h = tanh(layer(h));
    return {mean(square(h)), {}};
  };
  return training_step({{"x", {f32, {rows, 4}}}}, loss, optim::Sgd{});
}

inline Method diverging_method(const std::string& way) {
  if (way == "method") return Zero3Parallel{};
  DataParallel method;
  if (way == "threads") method.executor.threads_per_device = 3;
  return method;
}

/// Trains three steps on so many devices and reads a weight, but goes the given way.
inline void train_diverging(const std::string& way, int devices) {
  // mpirun ends the others if it knows by then that they want to join; else they wait without end.
  if (way == "never joins") return static_cast<void>(::sleep(1));
  const std::int64_t rows = (way == "shape" ? 4 : 2) * devices;
  const Executable step = parallelize(diverging_step(way == "layers" ? 3 : 2, rows),
                                      diverging_method(way), Cluster::local(devices));
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
