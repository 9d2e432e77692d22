// Several steps on one state on CUDA devices: each has streams and captured graphs of its own.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "emulation.h"

namespace shared_steps_test {

using namespace alpa;

namespace {

std::map<std::string, Array> rows_of(const Dataset& data, std::int64_t first, std::int64_t rows) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = first; i < first + rows; ++i) indices.push_back(i);
  return {{"x", take_rows(data.x, indices)}, {"y", take_rows(data.y, indices)}};
}

/// Losses of training and evaluation in turns, whole batches and a short one.
std::vector<double> losses(const nn::Sequential& model, const Method& method,
                           const std::string& backend) {
  const Dataset data = linear_dataset(64, 8, 1);
  const std::vector<BatchInput> inputs = {{"x", {f32, {16, 8}}}, {"y", {f32, {16, 8}}}};
  const auto loss = [=](const Batch& b) { return nn::mean_squared_error(model(b["x"]), b["y"]); };
  const auto [train, evaluate] =
      parallelize(training_step(inputs, loss, optim::Adam{.learning_rate = 0.01}),
                  evaluation_step(inputs, loss), method, Cluster::local(2, backend));
  TrainState state = train.init(0);
  std::vector<StepResult> results;
  for (int i = 0; i < 4; ++i) {
    results.push_back(train.run(state, rows_of(data, 0, 16)));
    results.push_back(train.run(state, rows_of(data, 16, 16)));
    results.push_back(evaluate.run(state, rows_of(data, 32, 16)));
    results.push_back(evaluate.run(state, rows_of(data, 48, 5)));
  }
  std::vector<double> values;
  for (const StepResult& result : results) values.push_back(result.loss());
  return values;
}

}  // namespace

TEST_CASE("steps that share a state take turns on it, though none waits for its results") {
  for (const int cards : {1, 2}) {
    CAPTURE(cards);
    emulation::restart({.devices = cards});
    const nn::Sequential model{nn::Dense(16), nn::ReLU(), nn::Dense(8)};
    PipeshardParallel stages{.num_micro_batches = 4, .layers = AutoLayers{2}};
    stages.schedule = ScheduleKind::gpipe;
    for (const Method& method :
         {Method(DataParallel{.num_micro_batches = 2}), Method(Zero3Parallel{}), Method(stages)}) {
      const auto cuda = losses(model, method, "cuda"), cpu = losses(model, method, "cpu");
      for (std::size_t i = 0; i < cpu.size(); ++i)
        CHECK(cuda[i] == doctest::Approx(cpu[i]).epsilon(1e-5));
    }
  }
}

TEST_CASE(
    "a short batch in many micro-batches gets the memory that it needs, and the state stays") {
  for (const int cards : {1, 2}) {
    CAPTURE(cards);
    emulation::restart({.devices = cards});
    const nn::Dense layer(2);
    const Executable predict = parallelize(
        prediction_step({{"x", {f32, {64, 2}}}}, [=](const Batch& b) { return layer(b["x"]); }),
        Zero3Parallel{.num_micro_batches = 4}, Cluster::local(2, "cuda"));
    std::vector<float> x;
    for (int i = 0; i < 128; ++i) x.push_back(std::sin(static_cast<float>(i)));
    const Array all(x, {64, 2});
    x.resize(2 * 59);
    const Array some(x, {59, 2});
    const std::int64_t planned = predict.memory_bytes();
    TrainState state = predict.init(3);
    const auto run = [&](const Array& rows) {
      return predict.run(state, {{"x", rows}}).outputs["prediction"].to_doubles();
    };
    const std::vector<double> expected = run(all), found = run(some);
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    CHECK(predict.memory_bytes() > planned);
    CHECK(predict.measured_bytes(state) == predict.memory_bytes());
    CHECK(run(all) == expected);
    CHECK(run(all) == expected);
  }
}

}  // namespace shared_steps_test
