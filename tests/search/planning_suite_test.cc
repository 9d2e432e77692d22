// The graphs by which the planner is measured are what they are said to be.
#include "support/planning_suite.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "src/ir/recorder.h"
#include "src/ir/subgraph.h"
#include "support/evaluate.h"

namespace planning_suite_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Graph tiny_graph(std::string_view model, int layers) {
  return suite_step(model, tiny_shape(layers)).trace(1);
}

struct Gates {
  std::int64_t rows = 2, tokens = 8, experts = 3, capacity = 2;
  std::vector<double> values = {};

  double at(std::int64_t b, std::int64_t t, std::int64_t e) const {
    return values[(b * tokens + t) * experts + e];
  }
};

/// Irregular, no two of a token equal; more tokens want expert 0 than it has slots.
Gates some_gates() {
  Gates g;
  for (std::int64_t i = 0; i < g.rows * g.tokens * g.experts; ++i)
    g.values.push_back(1.5 + std::sin(static_cast<double>(3 * i * i + i)) +
                       (i % g.experts == 0 ? 0.7 : 0));
  return g;
}

/// route_to_two with loops: the choices of all tokens for their best expert
/// first, then for their second.
std::vector<double> routed(const Gates& g) {
  std::vector<double> weights(g.rows * g.tokens * g.experts * g.capacity, 0.0);
  for (std::int64_t b = 0; b < g.rows; ++b) {
    std::vector<std::int64_t> taken(g.experts, 0);
    for (int choice = 0; choice < 2; ++choice)
      for (std::int64_t t = 0; t < g.tokens; ++t) {
        std::vector<std::pair<double, std::int64_t>> order;
        for (std::int64_t e = 0; e < g.experts; ++e) order.emplace_back(-g.at(b, t, e), e);
        std::sort(order.begin(), order.end());
        const std::int64_t e = order[choice].second, slot = taken[e]++;
        if (slot < g.capacity)
          weights[((b * g.tokens + t) * g.experts + e) * g.capacity + slot] =
              order[choice].first / (order[0].first + order[1].first);
      }
  }
  return weights;
}

}  // namespace

TEST_CASE("two MLP blocks with a residual on rank-3 tensors are 71 nodes") {
  CHECK(tiny_graph("residual-mlp", 2).nodes.size() == 71);
}

TEST_CASE("every model of the suite is a stack of equal layers, inner ones alike") {
  for (const SuiteModel& model : kPlanningSuite) {
    CAPTURE(model.name);
    const Graph graph = tiny_graph(model.name, 6);
    verify(graph);
    const std::uint64_t second = layer_hash(subgraph(graph, 1, 1).graph);
    CHECK(layer_hash(subgraph(graph, 3, 3).graph) == second);
    const bool alternates = model.name == "moe";
    CHECK((layer_hash(subgraph(graph, 2, 2).graph) == second) != alternates);
    CHECK(subgraph(graph, 2, 2).graph.nodes.size() > 20);
  }
}

TEST_CASE("the models with a vocabulary share one table between embedding and logits") {
  for (const char* model : {"gpt-vocabulary", "bert"}) {
    const Graph graph = tiny_graph(model, 1);
    int tables = 0;
    for (const Input& input : graph.inputs)
      if (input.kind == InputKind::state && input.name.find("adam") == std::string::npos)
        tables += graph.type(input.value).shape == Shape{24, 16};
    CHECK(tables == 1);
  }
}

TEST_CASE("tokens go to their two best experts, in order, until the slots are taken") {
  const Gates gates = some_gates();
  const TensorType type{f32, {gates.rows, gates.tokens, gates.experts}};
  Recorder g;
  output(g, "weights", route_to_two(g.input(InputKind::batch, "gates", type), gates.capacity));
  const std::vector<double> actual =
      evaluate(g.finish(), {{"gates", tensor(type, gates.values)}}).update("weights");
  const std::vector<double> wanted = routed(gates);
  REQUIRE(actual.size() == wanted.size());
  int dropped = static_cast<int>(2 * gates.rows * gates.tokens);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(actual[i] == doctest::Approx(wanted[i]).epsilon(1e-6));
    dropped -= wanted[i] > 0;
  }
  CHECK(dropped > 0);
}

}  // namespace planning_suite_test
