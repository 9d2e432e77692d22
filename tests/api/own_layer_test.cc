// A layer that the library does not have, written with what it offers for that.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <set>

#include "src/ir/recorder.h"
#include "support/error_text.h"

namespace own_layer_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

/// gain · x / sqrt(mean of x² + 1e-6) over the last dimension (Zhang and Sennrich 2019).
struct RmsNorm {
  nn::LayerId id;
  Value operator()(Value x) const {
    const nn::Scope in(x, id, "norm");
    const Value size = mean(square(x), {-1}, true);
    return x * rsqrt(size + 1e-6) * in.parameter("gain", {x.dim(-1)}, ones);
  }
};

/// A step that trains `model` to give its input.
TrainingStep identity_step(const nn::Layer& model, StepOptions options = {}) {
  return training_step(
      {{"x", {f32, {8, 6}}}},
      [model](const Batch& b) { return nn::mean_squared_error(model(b["x"]), b["x"]); },
      optim::Adam{.learning_rate = 0.1}, std::move(options));
}

std::map<std::string, Array> batch() {
  std::vector<float> x(8 * 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  return {{"x", Array(x, {8, 6})}};
}

}  // namespace

TEST_CASE("a user's layer names its parameters, shares them among copies and trains") {
  const RmsNorm tied;
  const nn::Sequential model{tied, RmsNorm(), tied};
  const Executable train = parallelize(identity_step(model), DataParallel{}, Cluster::local(2));
  CHECK(parameter_names(train.graph()) == std::vector<std::string>{"0.gain", "1.gain"});
  TrainState state = train.init(0);
  CHECK(state["1.gain"].to_host().to_doubles() == std::vector<double>(6, 1));
  const double first = train.run(state, batch()).loss();
  for (int i = 0; i < 20; ++i) train.run(state, batch());
  CHECK(train.run(state, batch()).loss() < first / 2);
}

TEST_CASE("nodes of a user's layer carry its name") {
  const Graph graph = evaluation_step({{"x", {f32, {8, 6}}}}, [](const Batch& b) {
                        return mean(RmsNorm()(b["x"]));
                      }).trace(1);
  std::set<std::string> names;
  for (const Node& node : graph.nodes) names.insert(node.name);
  for (const char* name :
       {"norm0/square", "norm0/reduce_sum", "norm0/rsqrt", "norm0/mul", "norm0.gain"})
    CHECK(names.count(name) == 1);
  CHECK(names.count("mul") == 1);  // of the mean behind the layer
}

TEST_CASE(
    "a parameter of a user's layer has the element type of what it is applied to, or its own") {
  const nn::LayerId id;
  const Graph graph = evaluation_step({{"x", {bf16, {8, 6}}}}, [id](const Batch& b) {
                        const nn::Scope in(b["x"], id, "mix");
                        const Value w = in.parameter("w", {6}, zeros),
                                    v = in.parameter("v", {6}, ones, f32);
                        return mean(cast(b["x"] * w, f32) + v);
                      }).trace(1);
  for (const Input& input : graph.inputs) {
    if (input.name == "mix0.w") CHECK(graph.type(input.value) == TensorType{bf16, {6}});
    if (input.name == "mix0.v") CHECK(graph.type(input.value) == TensorType{f32, {6}});
  }
  CHECK(graph.inputs.size() == 3);
}

TEST_CASE("a mask from numbers and a position needs no builder") {
  const TrainingStep step = evaluation_step({{"x", {f32, {2, 4}}}}, [](const Batch& b) {
    const Value x = b["x"], column = iota(x, {i32, {x.dim(1)}});
    const Value sign = where(lt(column, 2), 1, -1);        // + + - -
    const Value kept = where(ge(column, 1), x * sign, 0);  // 0 x -x -x
    return LossAndMetrics(sum(kept), {{"other", sum(where(ge(column, 1), 10, x))}});
  });
  const Executable evaluate = parallelize(step, ShardParallel{}, Cluster::local(2));
  TrainState state = evaluate.init(0);
  const StepResult result =
      evaluate.run(state, {{"x", Array(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 4})}});
  CHECK(result.loss() == 2 - 3 - 4 + 6 - 7 - 8);
  CHECK(result.metrics["other"] == 1 + 5 + 6 * 10);
}

TEST_CASE("a dimension that does not exist is named") {
  Recorder builder;
  const Value x = builder.input(InputKind::batch, "x", {f32, {8, 6}});
  CHECK(x.dim(0) == 8);
  CHECK(x.dim(-2) == 8);
  CHECK(x.dim(-1) == 6);
  CHECK(error_of([&] { x.dim(2); }) == "dim(2): f32[8, 6] has dimensions 0 to 1; -1 is the last");
  CHECK(error_of([&] { x.dim(-3); }) == "dim(-3): f32[8, 6] has dimensions 0 to 1; -1 is the last");
  CHECK(error_of([&] { sum(x).dim(0); }) == "dim(0): f32[] is a scalar, which has no dimensions");
}

}  // namespace own_layer_test
