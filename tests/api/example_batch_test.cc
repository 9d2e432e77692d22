// Inputs of a step that are taken from an example batch.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/error_text.h"

namespace example_batch_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

constexpr std::int64_t kRows = 8, kDim = 3;

BatchData examples(double temperature) {
  const Dataset data = linear_dataset(kRows, kDim, 1);
  return {{"x", data.x},
          {"y", data.y},
          {"weights", Array(std::vector<float>{1, 2, 3}, {kDim})},
          {"temperature", temperature}};
}

Value loss(const Batch& b) {
  static const nn::Dense dense(kDim);
  return mean(square(dense(b["x"]) / b["temperature"] - b["y"]) * b["weights"]);
}

/// Losses of steps at falling temperatures.
std::vector<double> losses(const std::vector<BatchInput>& inputs) {
  const Executable train = parallelize(training_step(inputs, loss, optim::Sgd{}),
                                       DataParallel{.num_micro_batches = 2}, Cluster::local(2));
  TrainState state = train.init(0);
  std::vector<double> values;
  for (const double temperature : {2.0, 1.0, 0.5})
    values.push_back(train.run(state, examples(temperature)).loss());
  return values;
}

}  // namespace

TEST_CASE("inputs of an example batch are those that a list declares") {
  CHECK(losses(inputs_of(examples(1), /*whole=*/{"weights"})) ==
        losses({{"x", {f32, {kRows, kDim}}},
                {"y", {f32, {kRows, kDim}}},
                {"weights", {f32, {kDim}}, /*batched=*/false},
                {"temperature", {f32, {}}, /*batched=*/false}}));
}

TEST_CASE("mistakes in an example batch, and batches that are unlike it, are named") {
  CHECK(error_of([] { inputs_of(examples(1), {"mask"}); }) ==
        "inputs_of: the example has no \"mask\" to be given whole; it has \"temperature\", "
        "\"weights\", \"x\", \"y\"");
  CHECK(error_of([] { losses(inputs_of(examples(1))); }) ==
        "batch input \"x\" is f32[8, 3] but \"weights\" is f32[3]; dimension 0 of all is the batch "
        "and must agree");

  const std::vector<BatchInput> inputs = inputs_of(examples(1), {"weights"});
  const Executable train =
      parallelize(training_step(inputs, loss, optim::Sgd{}), Serial{}, Cluster::local(1));
  TrainState state = train.init(0);
  const auto error = [&](const std::string& name, const std::optional<Array>& array) {
    BatchData batch = examples(1);
    batch.erase(name);
    if (array) batch.emplace(name, *array);
    return error_of([&] { train.run(state, batch); });
  };
  CHECK(error("y", {}) == "batch input \"y\" is missing; give an array of type f32[8, 3]");
  CHECK(error("weights", Array(TensorType{f32, {2}})) ==
        "input \"weights\" is f32[2], but the step takes f32[3]");
  CHECK(error("x", Array(TensorType{f64, {kRows, kDim}})) ==
        "batch input \"x\" is f64[8, 3], but the step takes f32[8, 3]");
}

}  // namespace example_batch_test
