// Steps that return tensors: predictions, and arrays of custom steps.
#include <cmath>

#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "support/difference.h"
#include "support/error_text.h"

namespace tensor_outputs_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

// 21 rows, or 7 per micro-batch: neither 2 nor 4 devices have equal parts of them.
constexpr std::int64_t kRows = 21, kDim = 6, kClasses = 5;

const nn::Sequential model{nn::Dense(8), nn::Tanh(), nn::Dropout(0.5), nn::Dense(kClasses)};
const std::vector<BatchInput> inputs{{"x", {f32, {kRows, kDim}}}};

std::map<std::string, Array> batch() { return {{"x", linear_dataset(kRows, kDim, 3).x}}; }

/// Data parallelism, ZeRO-3 and the planner's choice, each with 1 and 3 micro-batches.
std::vector<Method> methods() {
  std::vector<Method> methods;
  for (int parts : {1, 3}) {
    methods.push_back(DataParallel{.num_micro_batches = parts});
    methods.push_back(Zero3Parallel{.num_micro_batches = parts});
    methods.push_back(ShardParallel{.num_micro_batches = parts});
  }
  return methods;
}

/// Trains by gradient descent, and returns what else may be of interest: of every row its
/// logits and its class, once per step the new bias of the last layer, and from every
/// micro-batch the sums of its columns.
TrainingStep talkative_step() {
  return custom_step(inputs, [](Builder& g, const Batch& b) {
    const Value logits = model(b["x"]);
    const Value loss = mean(square(logits));
    output("logits", logits);
    output("positive", gt(logits, 0));
    output("sums", sum(b["x"], {0}));
    const Values gradients = mean_gradients(loss, g.parameters());
    g.metric("loss", mean_over_micro_batches("loss", loss));
    g.set_region(Region::apply);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Value updated = g.parameters()[i] - 0.1 * gradients[i];
      g.update(g.parameters()[i], updated);
      if (i + 1 == gradients.size()) output("bias", updated);
    }
  });
}

}  // namespace

TEST_CASE("a prediction step returns the logits of a batch in its order, under every plan") {
  const TrainingStep predict =
      prediction_step(inputs, [](const Batch& b) { return model(b["x"]); });
  const Executable serial = parallelize(predict, Serial{}, Cluster::local(1));
  TrainState weights = serial.init(0);
  const Array logits = serial.run(weights, batch()).outputs["prediction"];
  CHECK(logits.type() == TensorType{f32, {kRows, kClasses}});

  for (const Method& method : methods())
    for (int devices : {2, 4}) {
      CAPTURE(devices);
      const Executable split = parallelize(predict, method, Cluster::local(devices));
      TrainState state = split.init(0);
      StepResult result = split.run(state, batch());
      CHECK(result.metrics.values().empty());
      CHECK(testing::largest_distance(result.outputs["prediction"], logits) < 1e-6);
      CHECK(split.memory_bytes() == split.measured_bytes(state));
    }
}

TEST_CASE(
    "a prediction step returns several tensors by name, and those of a step stay as they are") {
  const TrainingStep predict = prediction_step(inputs, [](const Batch& b) {
    const Value hidden = tanh(b["x"]);
    return Predictions({{"hidden", hidden}, {"of each row", sum(hidden, {1})}});
  });
  const Executable run =
      parallelize(predict, DataParallel{.num_micro_batches = 3}, Cluster::local(2));
  TrainState state = run.init(0);
  const StepResult first = run.run(state, batch());
  const StepResult other = run.run(state, {{"x", linear_dataset(kRows, kDim, 4).x}});
  const Array x = batch().at("x");
  CHECK(first.outputs.at("of each row").shape() == Shape{kRows});
  CHECK(first.outputs.contains("hidden"));
  CHECK_FALSE(first.outputs.contains("prediction"));
  std::string seen;
  for (const auto& [name, array] : run.run(state, batch()).outputs)
    seen += fmt::format("{} {}; ", name, array.type());
  CHECK(seen == "hidden f32[21, 6]; of each row f32[21]; ");
  CHECK(first.outputs["hidden"].at<float>(20, 3) == doctest::Approx(std::tanh(x.at<float>(20, 3))));
  CHECK(testing::largest_distance(first.outputs["hidden"], other.outputs["hidden"]) > 0.1);
}

TEST_CASE(
    "a custom step that trains returns tensors, too: of rows, of micro-batches and of the step") {
  const auto train = [](const Method& method, int devices) {
    const Executable executable = parallelize(talkative_step(), method, Cluster::local(devices));
    TrainState state = executable.init(0);
    executable.run(state, batch());
    return std::pair(executable.run(state, batch()), state);
  };
  for (int parts : {1, 3}) {
    const auto [expected, of_serial] = train(Serial{.num_micro_batches = parts}, 1);
    CHECK(expected.outputs["sums"].shape() == Shape{parts * kDim});
    CHECK(expected.outputs["positive"].dtype() == u8);
    const Array x = batch().at("x");
    double sum = 0;  // of the last column of the last micro-batch
    for (std::int64_t row = kRows - kRows / parts; row < kRows; ++row)
      sum += x.at<float>(row, kDim - 1);
    CHECK(expected.outputs["sums"].at<float>(parts * kDim - 1) == doctest::Approx(sum));
    for (const Method& method : methods()) {
      const auto fits = [&](const auto& m) { return m.num_micro_batches == parts; };
      if (!std::visit(fits, method)) continue;
      for (int devices : {2, 4}) {
        CAPTURE(devices);
        const auto [result, state] = train(method, devices);
        for (const char* name : {"logits", "positive", "sums", "bias"}) {
          CAPTURE(name);
          CHECK(testing::largest_distance(result.outputs[name], expected.outputs[name]) < 1e-5);
        }
        CHECK(result.outputs["bias"].to_doubles() == state["3.bias"].to_host().to_doubles());
        CHECK(StepResult(result).loss() == doctest::Approx(StepResult(expected).loss()));
      }
    }
  }
}

TEST_CASE("mistakes with tensors that a step returns are named") {
  const auto error = [](const std::function<void(Builder&, Value)>& build) {
    const auto step = custom_step(inputs, [&](Builder& g, const Batch& b) { build(g, b["x"]); });
    return error_of([&] { step.trace(3); });
  };
  CHECK(error([](Builder&, Value x) { output("mean", mean(x)); }) ==
        "output \"mean\": the value is one number; report it with metric");
  CHECK(error([](Builder&, Value x) {
          output("x", square(x));
          output("x", x);
        }) == "output \"x\" exists already; give outputs different names");
  CHECK(error([](Builder& g, Value) {
          output("w", g.parameter("w", {f32, {2}}, ones));
        }) == "output \"w\": the value is the state input \"w\" itself; read it as state[\"w\"]");
  CHECK(error([](Builder&, Value) { output("nothing", Value()); }) ==
        "output \"nothing\": the value is empty");

  const Executable predict =
      parallelize(prediction_step(inputs, [](const Batch& b) { return tanh(b["x"]); }), Serial{},
                  Cluster::local(1));
  TrainState state = predict.init(0);
  CHECK(error_of([&] { predict.run(state, batch()).outputs["logits"]; }) ==
        "the step returns no tensor \"logits\"; its outputs are \"prediction\"");
}

}  // namespace tensor_outputs_test
