// What a training step records: gradients, accumulation over micro-batches, clipping, metrics.
#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include "src/ops/all_ops.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace training_step_test {

using namespace alpa;

namespace {

const std::vector<double> kX = {1, 2, 3, -1, 0, 4, 2, 2};  // [4, 2]

/// Linear model without bias on x [4, 2]: loss = mean over rows of (x·w)²,
/// metric "size" = mean of |x·w|.
LossAndMetrics linear_model(const Batch& b) {
  const Value w = b.builder().parameter("w", {f64, {2, 1}}, Initializer::ones());
  const Value product = matmul(b["x"], w);
  return {mean(square(product)), {{"size", mean(abs(product))}}};
}

TrainingStep linear_step(StepOptions options = {}) {
  return training_step({{"x", {f64, {4, 2}}}}, linear_model, optim::Sgd{.learning_rate = 1.0},
                       options);
}

/// dloss/dw = 2/4 Σ (x·w) x with w = (1, 1): rows 3, 2, 4, 4 → ½ (3·(1,2) +
/// 2·(3,-1) + 4·(0,4) + 4·(2,2)).
const std::vector<double> kGradient = {(3 + 6 + 0 + 8) / 2.0, (6 - 2 + 16 + 8) / 2.0};

struct Result {
  std::vector<double> w;
  StepResult step;
};

Result run_once(const TrainingStep& step, int num_micro_batches) {
  const Executable train =
      parallelize(step, Serial{.num_micro_batches = num_micro_batches}, Cluster::local(1));
  TrainState state = train.init(0);
  const StepResult result = train.run(state, {{"x", Array(kX, {4, 2})}});
  return {state["w"].to_host().to_doubles(), result};
}

std::vector<std::string> inputs_of(const Graph& graph, InputKind kind) {
  std::vector<std::string> names;
  for (const Input& input : graph.inputs)
    if (input.kind == kind) names.push_back(input.name);
  return names;
}

int count_nodes(const Graph& graph, Region region) {
  return static_cast<int>(std::count_if(
      graph.nodes.begin(), graph.nodes.end(),
      [&](const Node& node) { return node.region == region && !node.operands.empty(); }));
}

}  // namespace

TEST_CASE("one step moves the parameters against the gradient of the mean loss") {
  const Result result = run_once(linear_step(), 1);
  CHECK(result.w[0] == doctest::Approx(1 - kGradient[0]).epsilon(1e-14));
  CHECK(result.w[1] == doctest::Approx(1 - kGradient[1]).epsilon(1e-14));
  CHECK(result.step.loss() == doctest::Approx((9 + 4 + 16 + 16) / 4.0).epsilon(1e-14));
  CHECK(result.step.metrics["size"] == doctest::Approx((3 + 2 + 4 + 4) / 4.0).epsilon(1e-14));
}

TEST_CASE("micro-batches give the same step as the whole batch") {
  const Result whole = run_once(linear_step(), 1);
  for (int parts : {2, 4}) {
    const Result result = run_once(linear_step(), parts);
    CAPTURE(parts);
    CHECK(result.w[0] == doctest::Approx(whole.w[0]).epsilon(1e-14));
    CHECK(result.w[1] == doctest::Approx(whole.w[1]).epsilon(1e-14));
    CHECK(result.step.loss() == doctest::Approx(whole.step.loss()).epsilon(1e-14));
    CHECK(result.step.metrics["size"] ==
          doctest::Approx(whole.step.metrics["size"]).epsilon(1e-14));
  }
}

TEST_CASE("only several micro-batches need accumulators") {
  CHECK(inputs_of(linear_step().trace(1), InputKind::accumulator).empty());
  CHECK(inputs_of(linear_step().trace(2), InputKind::accumulator) ==
        std::vector<std::string>{"loss.sum", "size.sum", "w.gradient"});
}

TEST_CASE("gradients are added up where they are made, so that none waits for the last") {
  const TensorType rows{f32, {8, 6}};
  const TrainingStep step = training_step({{"x", rows}, {"y", rows}},
                                          [](const Batch& b) {
                                            Value x = b["x"];
                                            for (int i = 0; i < 5; ++i) x = tanh(nn::Dense(6)(x));
                                            return nn::mean_squared_error(x, b["y"]);
                                          },
                                          optim::Adam{}, {.precision = Precision::bf16_mixed});
  const Graph graph = step.trace(4);
  std::set<int> sums;  // nodes
  for (const Update& update : graph.updates)
    if (find_input(graph, update.input)->kind == InputKind::accumulator)
      sums.insert(graph.values[update.value].producer);
  REQUIRE(sums.size() == 11);  // kernels, biases, the loss
  for (int sum : sums) {
    int made = 0;  // the last node that the sum, or a conversion before it, reads
    for (int value : graph.nodes[sum].operands) {
      int producer = graph.values[value].producer;
      if (graph.nodes[producer].op == &ops::cast)
        producer = graph.values[graph.nodes[producer].operands[0]].producer;
      made = std::max(made, producer);
    }
    for (int between = made + 1; between < sum; ++between)
      CHECK((sums.contains(between) || graph.nodes[between].op == &ops::cast));
  }
}

TEST_CASE("half-precision gradients are accumulated in f32") {
  const TrainingStep step = training_step(
      {{"x", {bf16, {4, 2}}}},
      [](const Batch& b) {
        return mean(matmul(b["x"], b.builder().parameter("w", {bf16, {2, 1}}, {})));
      },
      optim::Sgd{});
  const Graph graph = step.trace(2);
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::accumulator) CHECK(graph.type(input.value).dtype == f32);
}

TEST_CASE("clipping shortens the gradient to the limit, and only if it is longer") {
  const double norm = std::hypot(kGradient[0], kGradient[1]);
  const Result clipped = run_once(linear_step({.clip_global_norm = 2}), 1);
  CHECK(clipped.w[0] == doctest::Approx(1 - kGradient[0] * 2 / norm).epsilon(1e-14));
  CHECK(clipped.w[1] == doctest::Approx(1 - kGradient[1] * 2 / norm).epsilon(1e-14));
  const Result unclipped = run_once(linear_step({.clip_global_norm = norm * 1.01}), 1);
  CHECK(unclipped.w[0] == doctest::Approx(1 - kGradient[0]).epsilon(1e-14));
}

TEST_CASE("clipping takes the norm of every gradient by an operator, and stores no squares") {
  const Graph clipped = linear_step({.clip_global_norm = 2}).trace(1),
              unclipped = linear_step({}).trace(1);
  const auto count = [](const Graph& graph, const OpDef& op) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [&](const Node& node) { return node.op == &op; });
  };
  CHECK(count(clipped, ops::squared_norms) == 1);
  CHECK(count(unclipped, ops::squared_norms) == 0);
  CHECK(count(clipped, ops::square) == count(unclipped, ops::square));
}

TEST_CASE("the norm that is clipped is that of all gradients together") {
  const TrainingStep step =
      training_step({{"x", {f64, {1, 1}}}},
                    [](const Batch& b) {
                      Builder& builder = b.builder();
                      const Value u = builder.parameter("u", {f64, {}}, {}),
                                  v = builder.parameter("v", {f64, {}}, {});
                      return u * 3 + v * 4 + mean(b["x"]);
                    },
                    optim::Sgd{.learning_rate = 1.0}, {.clip_global_norm = 1});
  const Executable train = parallelize(step, Serial{}, Cluster::local(1));
  TrainState state = train.init(0);
  train.run(state, {{"x", Array(std::vector<double>{0}, {1, 1})}});
  CHECK(state["u"].to_host().to_doubles()[0] == doctest::Approx(-0.6));
  CHECK(state["v"].to_host().to_doubles()[0] == doctest::Approx(-0.8));
}

TEST_CASE("an evaluation step reports metrics, changes nothing and has no backward pass") {
  const TrainingStep step = evaluation_step({{"x", {f64, {4, 2}}}}, linear_model);
  const Graph graph = step.trace(1);
  CHECK(graph.updates.empty());
  CHECK(count_nodes(graph, Region::backward) == 0);
  const Result result = run_once(step, 1);
  CHECK(result.w == std::vector<double>{1, 1});
  CHECK(result.step.loss() == doctest::Approx(11.25));
  CHECK(run_once(step, 2).step.loss() == doctest::Approx(11.25));
}

TEST_CASE("gradients that nothing needs are not recorded") {
  // Behind the only parameter there is no backward work towards the inputs: one
  // contraction for its gradient.
  const Graph graph = linear_step().trace(1);
  int contractions = 0;
  for (const Node& node : graph.nodes)
    contractions += node.op == &ops::einsum && node.region == Region::backward;
  CHECK(contractions == 1);
}

}  // namespace training_step_test
