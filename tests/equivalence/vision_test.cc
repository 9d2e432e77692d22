// A small convolutional network with batch normalisation computes the same under every method.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "support/difference.h"

namespace vision_test {

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 16, kRows = 7, kColumns = 6, kClasses = 5;

/// Two stages: dense and grouped convolutions, poolings, odd extents.
LossAndMetrics model(const Batch& b) {
  static const nn::Conv2d first(6, {3, 3}, {.bias = false}), second(9, {3, 2}, {.stride = {2, 2}}),
      depthwise(9, {3, 3}, {.groups = 9}), third(10, {1, 1});
  static const nn::BatchNorm norm, deep_norm, last_norm;
  static const nn::Dense head(kClasses);
  const Value x = nn::MaxPool{{2, 2}, {1, 1}, nn::Padding::same}(relu(norm(first(b["x"]))));
  const Value h = mark_pipeline_boundary(relu(deep_norm(second(x))));
  const Value y = relu(last_norm(third(depthwise(h) + h)));
  const Value logits = head(nn::GlobalAveragePool{}(y));
  return {nn::cross_entropy(logits, b["y"]), {{"accuracy", nn::accuracy(logits, b["y"])}}};
}

const std::vector<BatchInput> kInputs{{"x", {f32, {kBatch, kRows, kColumns, 3}}},
                                      {"y", {i32, {kBatch}}}};

std::map<std::string, Array> batch(int step) {
  std::vector<float> x(kBatch * kRows * kColumns * 3);
  std::vector<std::int32_t> y(kBatch);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(0.37F * static_cast<float>(i) + static_cast<float>(step));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int32_t>(i * 7 % kClasses);
  return {{"x", Array(x, {kBatch, kRows, kColumns, 3})}, {"y", Array(y, {kBatch})}};
}

struct Run {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> state;
};

/// Two training steps, then the loss of an evaluation.
Run train(const Method& method, int devices) {
  const std::array<Executable, 2> steps =
      parallelize({training_step(kInputs, model, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9}),
                   evaluation_step(kInputs, model)},
                  method, Cluster::local(devices));
  TrainState state = steps[0].init(3);
  Run run;
  for (int i = 0; i < 2; ++i) run.losses.push_back(steps[0].run(state, batch(i)).loss());
  CHECK(steps[0].measured_bytes(state) == steps[0].memory_bytes());
  run.losses.push_back(steps[1].run(state, batch(2)).loss());
  for (const std::string& name : state.names())
    run.state[name] = state[name].to_host().to_doubles();
  return run;
}

void check_equal(const Run& actual, const Run& expected) {
  CHECK(testing::largest_difference(actual.losses, expected.losses, 1) < 1e-5);
  REQUIRE(actual.state.size() == expected.state.size());
  for (const auto& [name, values] : expected.state) {
    CAPTURE(name);
    CHECK(testing::largest_difference(actual.state.at(name), values, 1e-2) < 2e-5);
  }
}

}  // namespace

TEST_CASE(
    "a convolutional network on 1 to 8 devices equals one device, micro-batch by micro-batch") {
  for (const int micro_batches : {1, 4}) {
    const Run serial = train(Serial{.num_micro_batches = micro_batches}, 1);
    CHECK(serial.state.count("batch_norm1.variance") == 1);
    for (const int devices : {1, 2, 3, 4, 8}) {
      CAPTURE(micro_batches);
      CAPTURE(devices);
      check_equal(train(ShardParallel{.num_micro_batches = micro_batches}, devices), serial);
      if (kBatch / micro_batches >= devices)
        check_equal(train(DataParallel{.num_micro_batches = micro_batches}, devices), serial);
      if (devices > 1)
        check_equal(train(PipeshardParallel{.num_micro_batches = micro_batches}, devices), serial);
    }
  }
}

}  // namespace vision_test
