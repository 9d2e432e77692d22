// Inputs that all micro-batches share, in the text of a graph and in its parts.
#include <doctest/doctest.h>

#include <algorithm>

#include "alpa/ops/ops.h"
#include "alpa/train/training_step.h"
#include "src/ir/layers.h"
#include "src/ir/subgraph.h"
#include "src/ops/all_ops.h"

namespace shared_input_test {

using namespace alpa;

namespace {

/// Two layers multiply x by a table.
Graph two_layers() {
  const auto build = [](Builder& g, const Batch& b) {
    Value x = b["x"];
    Values weights;
    for (int layer : {0, 1}) {
      const LayerScope scope(g, layer);
      weights.push_back(g.parameter(fmt::format("w{}", layer), {f32, {3}}, ones));
      x = x * b["table"] * weights.back();
    }
    const Value loss = mean(square(x));
    const Values gradients = mean_gradients(loss, weights);
    g.set_region(Region::apply);
    g.update(weights[0], weights[0] - gradients[0]);
    g.update(weights[1], weights[1] - gradients[1]);
  };
  const std::vector<BatchInput> inputs{{"x", {f32, {4, 3}}},
                                       {"table", {f32, {3}}, /*batched=*/false}};
  return with_layers(custom_step(inputs, build).trace(2));
}

}  // namespace

TEST_CASE("a graph with a shared input reads back from its text") {
  const Graph graph = two_layers();
  CHECK(to_string(graph).find("kind=\"shared\"") != std::string::npos);
  CHECK(parse_graph(to_string(graph), all_ops()) == graph);
}

TEST_CASE("parts of a graph read a shared input of the whole") {
  const Graph graph = two_layers();
  for (int layer : {0, 1}) {
    const Graph part = subgraph(graph, layer, layer).graph;
    CHECK_NOTHROW(verify(part));
    const auto table =
        std::find_if(part.inputs.begin(), part.inputs.end(), [&](const Input& input) {
          return input.kind == InputKind::boundary && part.type(input.value).shape == Shape{3};
        });
    REQUIRE(table != part.inputs.end());
    CHECK(!consumers(part)[table->value].empty());
  }
}

}  // namespace shared_input_test
