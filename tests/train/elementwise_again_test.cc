// What the forward pass keeps of elementwise results, and what the backward pass computes again.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "src/ops/all_ops.h"

namespace elementwise_again_test {

using namespace alpa;

namespace {

using Activation = Value (*)(Value gate, Value up);

/// mean of (f(x·gate, x·up) · down)², of x [4, 8].
TrainingStep step_of(Activation f, StepOptions options = {}) {
  return training_step(
      {{"x", {f64, {4, 8}}}},
      [f](const Batch& b) -> LossAndMetrics {
        Builder& g = b.builder();
        const auto weight = [&](const char* name, Shape shape) {
          return g.parameter(name, {f64, shape}, Initializer::normal(0, 0.5));
        };
        const Value gate = matmul(b["x"], weight("gate", {8, 16})),
                    up = matmul(b["x"], weight("up", {8, 16}));
        return {mean(square(matmul(f(gate, up), weight("down", {16, 2}))))};
      },
      optim::Sgd{.learning_rate = 0.1}, options);
}

/// Operators of the [rows, 16] results of the forward pass that the backward pass reads, in order.
std::string kept(const Graph& graph) {
  std::set<int> read;
  for (const Node& node : graph.nodes)
    if (node.region == Region::backward) read.insert(node.operands.begin(), node.operands.end());
  std::string names;
  for (const int value : read) {
    const Node& node = graph.producer(value);
    const Shape& shape = graph.type(value).shape;
    if (node.region == Region::forward && !node.operands.empty() && shape.size() == 2 &&
        shape[1] == 16)
      names += (names.empty() ? "" : " ") + std::string(node.op->name);
  }
  return names;
}

int computed_again(const Graph& graph) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes, [](const Node& node) { return node.name.ends_with(".again"); }));
}

Graph trace(const TrainingStep& step, const TraceOptions& options) { return step.trace(options); }

Value swiglu(Value gate, Value up) { return silu(gate) * up; }
Value geglu(Value gate, Value up) { return gelu(gate) * up; }
Value exact(Value gate, Value up) { return exact_gelu(gate) + up; }

/// Parameters after three steps on one batch.
std::vector<double> trained(const TrainingStep& step, const Serial& method) {
  std::vector<double> x(32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i));
  const Executable train = parallelize(step, method, Cluster::local(1));
  TrainState state = train.init(7);
  for (int i = 0; i < 3; ++i) train.run(state, {{"x", Array(x, {4, 8})}});
  std::vector<double> all;
  for (const char* name : {"gate", "up", "down"})
    for (const double w : state[name].to_host().to_doubles()) all.push_back(w);
  return all;
}

}  // namespace

TEST_CASE("of a gated activation the two products and the result are kept") {
  for (const int micro_batches : {1, 2}) {
    CAPTURE(micro_batches);
    for (const Activation gated : {swiglu, geglu}) {
      const Graph graph = trace(step_of(gated), micro_batches);
      CHECK(kept(graph) == "einsum einsum mul");  // the last one for the gradient of down
    }
    // the sigmoid and the product with it; the GELU
    CHECK(computed_again(trace(step_of(swiglu), micro_batches)) == 2);
    CHECK(computed_again(trace(step_of(geglu), micro_batches)) == 1);
  }
}

TEST_CASE("the result of a frozen layer's activation is not kept either") {
  const Graph graph = trace(step_of(swiglu, {.frozen = {"down"}}), 1);
  CHECK(kept(graph) == "einsum einsum");
}

TEST_CASE("one value is kept in place of several that are made of it") {
  // x/2, x/√2 and 1 + erf(x/√2) are made of x
  CHECK(kept(trace(step_of(exact), 1)) == "einsum add");
}

TEST_CASE("what is as large as that which it is made of is kept as it is") {
  const Activation relus = [](Value gate, Value up) { return relu(gate) + up; },
                   tanhs = [](Value gate, Value up) { return tanh(gate) + up; };
  for (const Activation f : {relus, tanhs}) CHECK(computed_again(trace(step_of(f), 1)) == 0);
}

TEST_CASE("a product of two values is not computed again from both") {
  const Activation squares = [](Value gate, Value up) { return square(gate + up); };
  CHECK(computed_again(trace(step_of(squares), 1)) == 0);
}

TEST_CASE("nothing is computed again across layers") {
  const auto gated = [](bool is_cut) {
    return training_step(
        {{"x", {f64, {4, 8}}}},
        [is_cut](const Batch& b) -> LossAndMetrics {
          const Value gate = nn::Dense(16, {.bias = false})(b["x"]),
                      up = nn::Dense(16, {.bias = false})(b["x"]);
          const Value silu_of_gate = silu(gate);
          if (is_cut) mark_pipeline_boundary(silu_of_gate);
          return {mean(square(nn::Dense(2)(silu_of_gate * up)))};
        },
        optim::Sgd{});
  };
  CHECK(computed_again(trace(gated(false), 1)) == 2);
  const Graph cut = trace(gated(true), 1);
  CHECK(computed_again(cut) == 1);  // the sigmoid for its own layer
  for (const Node& node : cut.nodes)
    if (node.name.ends_with(".again")) CHECK(node.layer == 0);
}

TEST_CASE("layers chosen by the planner have the same nodes") {
  const TrainingStep step = step_of(swiglu);
  const Graph marked = trace(step, 1), per_node = trace(step, {1, /*per_node=*/true});
  REQUIRE(marked.nodes.size() == per_node.nodes.size());
  for (std::size_t n = 0; n < marked.nodes.size(); ++n) {
    CHECK(marked.nodes[n].name == per_node.nodes[n].name);
    CHECK(marked.nodes[n].operands == per_node.nodes[n].operands);
  }
}

TEST_CASE("layers that are computed again keep what they would keep otherwise") {
  const auto read_of = [](Remat remat) {
    StepOptions options;
    options.remat = remat;
    const TrainingStep step = training_step(
        {{"x", {f64, {4, 8}}}},
        [](const Batch& b) -> LossAndMetrics {
          return {mean(square(nn::remat(nn::SwiGLU(8, 16))(b["x"])))};
        },
        optim::Sgd{}, options);
    const Graph graph = trace(step, 1);
    std::set<std::string> read;  // of nodes of the layer, or their copies
    for (const Node& node : graph.nodes)
      for (const int value : node.operands) {
        const Node& from = graph.producer(value);
        const bool kept = remat == Remat::all
                              ? from.again && !node.again
                              : from.region != node.region && !from.operands.empty();
        if (kept && node.region == Region::backward)
          read.insert(from.name.substr(0, from.name.find(".again")));
      }
    return read;
  };
  const std::set<std::string> kept = read_of(Remat::none), again = read_of(Remat::all);
  CHECK(kept.size() == 4);  // gate, up, their result, and the loss's operand
  for (const std::string& name : again) CHECK(kept.contains(name));
  CHECK(again.size() == 3);
}

TEST_CASE("steps are those of a gradient that keeps everything") {
  // silu by other operators, of which other results are kept
  const Activation whole = [](Value gate, Value up) { return gate / (exp(-gate) + 1) * up; };
  const std::vector<double> again = trained(step_of(swiglu), {}),
                            once = trained(step_of(whole), {}),
                            parts = trained(step_of(swiglu), {.num_micro_batches = 2});
  REQUIRE(again.size() == once.size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    CHECK(again[i] == doctest::Approx(once[i]).epsilon(1e-12));
    CHECK(again[i] == doctest::Approx(parts[i]).epsilon(1e-12));
  }
}

}  // namespace elementwise_again_test
