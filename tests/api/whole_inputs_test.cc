// Inputs beside the batch: numbers and tables that every micro-batch sees whole.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/error_text.h"

namespace whole_inputs_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

constexpr std::int64_t kRows = 12, kDim = 6;

const nn::Sequential model{nn::Dense(10), nn::Tanh(), nn::Dense(kDim)};

const std::vector<BatchInput> inputs{{"x", {f32, {kRows, kDim}}},
                                     {"y", {f32, {kRows, kDim}}},
                                     {"mask", {f32, {kDim, kDim}}, /*batched=*/false},
                                     {"weights", {f32, {kDim}}, /*batched=*/false},
                                     {"temperature", {f32, {}}, /*batched=*/false}};

/// The mask lets columns of x pass, the weights say which columns of the result count, and the
/// temperature divides the result.
Value masked_loss(const Batch& b) {
  const Value result = model(matmul(b["x"], b["mask"])) / b["temperature"];
  return mean(square(result - b["y"]) * b["weights"]);
}

TrainingStep masked_step() {
  return training_step(inputs, masked_loss, optim::Adam{.learning_rate = 0.01});
}

/// In step `n` column n of x is hidden, and the temperature rises.
std::map<std::string, Array> batch(int n) {
  const Dataset data = linear_dataset(kRows, kDim, 1);
  std::vector<float> mask(kDim * kDim, 0);
  for (int i = 0; i < kDim; ++i) mask[i * kDim + i] = i == n ? 0.0f : 1.0f;
  return {{"x", data.x},
          {"y", data.y},
          {"mask", Array(mask, {kDim, kDim})},
          {"weights", Array(std::vector<float>{1, 2, 3, 4, 5, 6}, {kDim})},
          {"temperature", 1 + 0.5 * n}};
}

std::vector<double> losses(const Executable& train) {
  TrainState state = train.init(0);
  std::vector<double> values;
  for (int n = 0; n < 4; ++n) values.push_back(train.run(state, batch(n)).loss());
  return values;
}

}  // namespace

TEST_CASE(
    "a mask, weights and a temperature that change from step to step train the same under every "
    "plan") {
  const std::vector<double> whole = losses(parallelize(masked_step(), Serial{}, Cluster::local(1)));
  CHECK(whole[1] != whole[0]);
  for (int parts : {1, 3})
    for (int devices : {2, 4}) {
      CAPTURE(parts);
      CAPTURE(devices);
      for (const Method& method : std::vector<Method>{DataParallel{.num_micro_batches = parts},
                                                      Zero3Parallel{.num_micro_batches = parts},
                                                      ShardParallel{.num_micro_batches = parts}}) {
        const Executable train = parallelize(masked_step(), method, Cluster::local(devices));
        const std::vector<double> values = losses(train);
        for (int n = 0; n < 4; ++n) CHECK(values[n] == doctest::Approx(whole[n]).epsilon(1e-4));
        TrainState state = train.init(0);
        train.run(state, batch(0));
        CHECK(train.memory_bytes() == train.measured_bytes(state));
      }
    }
}

TEST_CASE(
    "every micro-batch sees all rows of a table, and a custom step may read it once per step") {
  // w moves by the mean of the table's rows; the metric is the sum over the batch of looked up
  // rows.
  const auto build = [](Builder& g, const Batch& b) {
    const Value rows = embedding(b["table"], b["row"]);
    g.metric("mean", mean_over_micro_batches("mean", mean(rows)));
    g.set_region(Region::apply);
    const Value w = g.parameter("w", {f32, {2}}, zeros);
    g.update(w, w + mean(b["table"], {0}) * b["rate"]);
  };
  const TrainingStep step = custom_step({{"row", {i32, {6}}},
                                         {"table", {f32, {3, 2}}, /*batched=*/false},
                                         {"rate", {f32, {}}, /*batched=*/false}},
                                        build);
  const Array table(std::vector<float>{1, 2, 3, 4, 8, 9}, {3, 2});
  const Array row(std::vector<std::int32_t>{2, 0, 1, 2, 2, 0}, {6});
  for (int parts : {1, 3})
    for (int devices : {1, 2}) {
      CAPTURE(parts);
      CAPTURE(devices);
      const Executable run =
          parallelize(step, ShardParallel{.num_micro_batches = parts}, Cluster::local(devices));
      TrainState state = run.init(0);
      StepResult result = run.run(state, {{"row", row}, {"table", table}, {"rate", 2}});
      CHECK(result.metrics["mean"] == doctest::Approx((3 * 17 + 2 * 3 + 7) / 12.0));
      const std::vector<double> w = state["w"].to_host().to_doubles();
      CHECK(w[0] == doctest::Approx(8));
      CHECK(w[1] == doctest::Approx(10));
    }
}

TEST_CASE("many layers may share a table that the end of the step reads, too") {
  const auto build = [](Builder& g, const Batch& b) {
    Value x = b["x"];
    for (int layer = 0; layer < 33; ++layer) {
      const LayerScope scope(g, layer);
      x = x * g.parameter(fmt::format("w{}", layer), {f32, {3}}, ones) * b["table"];
    }
    const Value loss = mean(x);
    const Values gradients = mean_gradients(loss, g.parameters());
    g.metric("loss", mean_over_micro_batches("loss", loss));
    g.set_region(Region::apply);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      g.update(g.parameters()[i], g.parameters()[i] - gradients[i] * b["table"]);
  };
  const TrainingStep step =
      custom_step({{"x", {f32, {4, 3}}}, {"table", {f32, {3}}, /*batched=*/false}}, build);
  const Executable train =
      parallelize(step, ShardParallel{.num_micro_batches = 2}, Cluster::local(2));
  TrainState state = train.init(0);
  const Array x(std::vector<float>(12, 1.0f), {4, 3}), table(std::vector<float>(3, 1.0f), {3});
  CHECK(train.run(state, {{"x", x}, {"table", table}}).loss() == doctest::Approx(1));
  CHECK(state["w32"].to_host().at<float>(2) == doctest::Approx(1 - 1.0 / 3));
}

TEST_CASE("an evaluation step takes a number and a table as well") {
  const Executable evaluate =
      parallelize(evaluation_step(inputs, masked_loss), DataParallel{}, Cluster::local(2));
  const Executable train = parallelize(masked_step(), Serial{}, Cluster::local(1));
  TrainState state = evaluate.init(0), trained = train.init(0);
  CHECK(evaluate.run(state, batch(2)).loss() ==
        doctest::Approx(train.run(trained, batch(2)).loss()));
}

TEST_CASE("mistakes with inputs beside the batch are named") {
  const Executable train = parallelize(masked_step(), Serial{}, Cluster::local(1));
  TrainState state = train.init(0);
  const auto error = [&](const std::string& name, const Array& array) {
    std::map<std::string, Array> wrong = batch(0);
    wrong[name] = array;
    return error_of([&] { train.run(state, wrong); });
  };
  std::map<std::string, Array> missing = batch(0);
  missing.erase("mask");
  CHECK(error_of([&] { train.run(state, missing); }) ==
        "input \"mask\" is missing; give an array of type f32[6, 6]");
  missing = batch(0);
  missing.erase("temperature");
  CHECK(error_of([&] { train.run(state, missing); }) ==
        "scalar input \"temperature\" is missing; give it a value");
  CHECK(error("mask", Array(TensorType{f32, {kRows, kDim}})) ==
        "input \"mask\" is f32[12, 6], but the step takes f32[6, 6]");
  CHECK(error("temperature", Array(TensorType{f32, {1}})) ==
        "scalar input \"temperature\" is f32[1], but the step takes a number");
  CHECK(
      error("learning_rate", 0.5) ==
      "no batch input is called \"learning_rate\"; known are \"x\", \"y\", \"mask\", \"weights\", "
      "\"temperature\"");

  const auto step = [](const std::vector<BatchInput>& some) {
    return error_of([&] { evaluation_step(some, masked_loss); });
  };
  CHECK(step({{"mask", {f32, {2}}, false}}) ==
        "a step needs at least one batch input, e.g. {\"x\", {f32, {32, 784}}}");
  CHECK(step({{"temperature", {f32, {}}}}) ==
        "batch input \"temperature\" is f32[]; its dimension 0 must be the batch");
  CHECK(step({{"x", {f32, {2}}}, {"mask", {f32, {0}}, false}}) ==
        "input \"mask\" is f32[0]; every extent must be at least 1");
}

}  // namespace whole_inputs_test
