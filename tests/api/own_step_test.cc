// Custom steps: gradients and accumulation over micro-batches without the library's training step.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "support/error_text.h"

namespace own_step_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

constexpr std::int64_t kBatch = 8, kDim = 4;

const nn::Sequential mlp{nn::Dense(kDim), nn::Tanh(), nn::Dense(kDim)};
const Optimizer adam = optim::Adam{.learning_rate = warmup_cosine(0.1, 2, 10)};

Value reconstruction_loss(const Batch& b) { return mean(square(mlp(b["x"]) - b["x"])); }

/// SGD with a rate of 0.01 along the sign of the gradient (Bernstein et al. 2018).
TrainingStep sign_step() {
  return custom_step({{"x", {f32, {kBatch, kDim}}}}, [](Builder& g, const Batch& b) {
    const Value loss = reconstruction_loss(b);
    const Values gradients = mean_gradients(loss, g.parameters());
    g.metric("loss", mean_over_micro_batches("loss", loss));
    g.set_region(Region::apply);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Value w = g.parameters()[i];
      g.update(w, w - 0.01 * sign(gradients[i]));
    }
  });
}

/// `training_step` with Adam, written out.
TrainingStep adam_step() {
  const auto build = [](Builder& g, const Batch& b) {
    const Value loss = reconstruction_loss(b);
    const Values gradients = mean_gradients(loss, g.parameters());
    g.metric("loss", mean_over_micro_batches("loss", loss));
    g.set_region(Region::apply);
    const Value rate = g.input(InputKind::scalar, "learning_rate", {f32, {}});
    const Value step = g.input(InputKind::scalar, "step", {f32, {}});
    for (std::size_t i = 0; i < gradients.size(); ++i)
      adam.update(g, g.parameters()[i], gradients[i], rate, step);
  };
  return custom_step({{"x", {f32, {kBatch, kDim}}}}, build, [](std::int64_t step) {
    return std::map<std::string, double>{{"learning_rate", adam.learning_rate(step)},
                                         {"step", static_cast<double>(step)}};
  });
}

/// Two losses of one parameter: w moves by the gradient of the first, clipped to
/// 1; v by that of the second.
TrainingStep two_losses_step() {
  return custom_step({{"x", {f64, {4, 2}}}}, [](Builder& g, const Batch& b) {
    const Value w = g.parameter("w", {f64, {2}}, zeros), v = g.parameter("v", {f64, {2}}, zeros);
    const Value first = sum(mean(b["x"], {0}) * w), second = sum(mean(b["x"], {0}) * (w + v));
    const Values of_first = mean_gradients(first, {w, v}),
                 of_second = mean_gradients(second, {w, v}, "second");
    g.set_region(Region::apply);
    g.update(w, w - clip_global_norm(of_first, 1)[0]);
    g.update(v, v - of_first[1] - of_second[1]);
  });
}

std::map<std::string, Array> batch() { return {{"x", linear_dataset(kBatch, kDim, 1).x}}; }

std::vector<double> losses(const Executable& train) {
  TrainState state = train.init(0);
  std::vector<double> values;
  for (int i = 0; i < 4; ++i) values.push_back(train.run(state, batch()).loss());
  return values;
}

}  // namespace

TEST_CASE("a custom step accumulates gradients, and trains the same under every plan") {
  const std::vector<double> whole = losses(parallelize(sign_step(), Serial{}, Cluster::local(1)));
  CHECK(whole[3] < whole[0]);
  for (int parts : {2, 4})
    for (int devices : {1, 2}) {
      CAPTURE(parts);
      CAPTURE(devices);
      const ShardParallel method{.num_micro_batches = parts};
      const std::vector<double> values =
          losses(parallelize(sign_step(), method, Cluster::local(devices)));
      for (int i = 0; i < 4; ++i) CHECK(values[i] == doctest::Approx(whole[i]).epsilon(1e-4));
    }
}

TEST_CASE("a training step written out with an optimizer gives the same numbers, bit for bit") {
  const TrainingStep usual =
      training_step({{"x", {f32, {kBatch, kDim}}}}, reconstruction_loss, adam);
  for (int parts : {1, 2}) {
    CAPTURE(parts);
    const DataParallel method{.num_micro_batches = parts};
    CHECK(losses(parallelize(adam_step(), method, Cluster::local(2))) ==
          losses(parallelize(usual, method, Cluster::local(2))));
  }
}

TEST_CASE(
    "gradients of several losses are kept apart, clipped, and zero where a loss does not depend") {
  // The means of x are 3 and 4, so that the gradient of the first loss has a norm of 5.
  const Array x(std::vector<double>{1, 2, 3, 4, 5, 6, 3, 4}, {4, 2});
  for (int parts : {1, 2}) {
    CAPTURE(parts);
    const Executable train =
        parallelize(two_losses_step(), Serial{.num_micro_batches = parts}, Cluster::local(1));
    TrainState state = train.init(0);
    train.run(state, {{"x", x}});
    const std::vector<double> w = state["w"].to_host().to_doubles(),
                              v = state["v"].to_host().to_doubles();
    CHECK(w[0] == doctest::Approx(-0.6));
    CHECK(w[1] == doctest::Approx(-0.8));
    CHECK(v == std::vector<double>{-3, -4});
  }
}

TEST_CASE("a metric that is state reports what it was before its update") {
  const TrainingStep swap = custom_step({{"x", {f32, {4, 2}}}}, [](Builder& g, const Batch& b) {
    const Value v = g.parameter("v", {f32, {}}, Initializer::constant(1)),
                w = g.parameter("w", {f32, {}}, Initializer::constant(2)),
                sum = g.parameter("sum", {f32, {}}, zeros);
    const Value mean_x = mean_over_micro_batches("mean", mean(b["x"]));
    g.set_region(Region::apply);
    g.update(v, w), g.update(w, v), g.update(sum, sum + mean_x);
    g.metric("v", v), g.metric("w", w), g.metric("sum", sum), g.metric("sum again", sum);
  });
  for (int parts : {1, 2})
    for (int devices : {1, 2}) {
      const ShardParallel method{.num_micro_batches = parts};
      const Executable train = parallelize(swap, method, Cluster::local(devices));
      TrainState state = train.init(0);
      for (int i = 0; i < 3; ++i) {
        const StepResult result =
            train.run(state, {{"x", Array(std::vector<float>(8, 0.5F), {4, 2})}});
        CHECK(result.metrics["v"] == (i % 2 == 0 ? 1 : 2));
        CHECK(result.metrics["w"] == (i % 2 == 0 ? 2 : 1));
        CHECK(result.metrics["sum"] == i * 0.5);
        CHECK(result.metrics["sum again"] == i * 0.5);
      }
    }
}

TEST_CASE("only several micro-batches need accumulators in a custom step") {
  const auto accumulators = [](int parts) {
    std::vector<std::string> names;
    const Graph graph = two_losses_step().trace(parts);
    for (const Input& input : graph.inputs)
      if (input.kind == InputKind::accumulator) names.push_back(input.name);
    return names;
  };
  CHECK(accumulators(1).empty());
  CHECK(accumulators(2) == std::vector<std::string>{"w.gradient", "w.second", "v.second"});
}

TEST_CASE("mistakes with means over micro-batches are named") {
  const auto error = [](const std::function<void(Builder&, Value)>& build) {
    const auto step =
        custom_step({{"x", {f32, {4, 2}}}}, [&](Builder& g, const Batch& b) { build(g, b["x"]); });
    return error_of([&] { step.trace(2); });
  };
  CHECK(error([](Builder&, Value x) {
          mean_over_micro_batches("a", mean_over_micro_batches("b", mean(x)));
        }) ==
        "mean_over_micro_batches \"a\": the value is computed once per step; use it as it is");
  CHECK(error([](Builder&, Value x) { mean_over_micro_batches("a", gt(x, 0)); }) ==
        "mean_over_micro_batches \"a\": the value is u8[2, 2]; convert it with cast(…, f32)");
  CHECK(error([](Builder& g, Value x) {
          const Value w = g.parameter("w", {f32, {2}}, ones), loss = mean(x * w);
          mean_gradients(loss, {w});
          mean_gradients(loss * 2, {w});
        }) == "input \"w.gradient\" exists already; give inputs different names");
  CHECK(
      error([](Builder& g, Value x) {
        const Value w = g.parameter("w", {f32, {2}}, ones);
        mean_gradients(mean_over_micro_batches("loss", mean(x * w)), {w});
      }) ==
      "mean_gradients: the loss is computed once per step, but its gradients once per micro-batch; "
      "give the loss of the micro-batch");
}

}  // namespace own_step_test
