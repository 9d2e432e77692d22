// Device programs as text, and what starts, waits, aliases and copies.
#include <doctest/doctest.h>

#include "support/steps.h"

using namespace alpa;
using namespace alpa::test;

namespace {

/// y = (x w1) w2, rows of x on two devices; loss = sum of squares; plain gradient descent.
SpmdProgram two_products(int num_micro_batches) {
  const auto model = [](Builder& g, Value x, Value y) {
    const Value w1 = g.parameter("w1", {f32, {4, 4}}, Initializer::ones());
    const Value w2 = g.parameter("w2", {f32, {4, 2}}, Initializer::ones());
    return sum(square(matmul(matmul(x, w1), w2) - y));
  };
  const Graph graph = training_graph({f32, {6, 4}}, {f32, {6, 2}}, model, {.num_micro_batches = num_micro_batches});
  Layouts layouts{{"x", "S0@0"}, {"y", "S0@0"}};
  for (const Node& node : graph.nodes)
    if (node.region == Region::apply) layouts[fmt::format("%{}", node.results[0])] = "R";
  return lowered(graph, following_plan(graph, mesh_of({2}), layouts), 0);
}

}  // namespace

TEST_CASE("x") {
  for (int k : {1, 3})
  MESSAGE(to_string(emit(two_products(k), 1, true), two_products(k)));
}
