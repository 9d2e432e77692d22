// Small all_reduces travel together, none later than it is needed.
#include <doctest/doctest.h>

#include "alpa/ops/all_ops.h"
#include "support/steps.h"

using namespace alpa;
using namespace alpa::test;

namespace {

/// Data parallelism over two devices: one all_reduce per parameter and one for the loss. Kernels of 8·8
/// elements, 256 bytes each.
SpmdProgram data_parallel(int layers) {
  const auto model = [layers](Builder& g, Value x, Value y) {
    for (int i = 0; i < layers; ++i)
      x = tanh(matmul(x, g.parameter(fmt::format("w{}", i), {f32, {8, 8}}, Initializer::normal(0, 1))));
    return mean(square(x - y));
  };
  const Graph graph =
      training_graph({f32, {8, 8}}, {f32, {8, 8}}, model, {.optimizer = alpa::test::Optimizer::adam});
  Layouts layouts{{"x", "S0@0"}, {"y", "S0@0"}};
  for (const Node& node : graph.nodes)
    if (node.op == &ops::adam_update) layouts[fmt::format("%{}", node.results[0])] = "R";
  return fuse_elementwise(partition(graph, following_plan(graph, mesh_of({2}), layouts)));
}

/// Tensors per all_reduce, in program order.
std::vector<std::size_t> bucket_sizes(const SpmdProgram& program) {
  std::vector<std::size_t> sizes;
  for (const Node& node : program.graph.nodes)
    if (node.op == &ops::all_reduce) sizes.push_back(node.operands.size());
  return sizes;
}

}  // namespace

TEST_CASE("buckets hold as many gradients as fit") {
  const SpmdProgram program = data_parallel(5);
  CHECK(bucket_sizes(program) == std::vector<std::size_t>(6, 1));
  CHECK(bucket_sizes(bucket_collectives(program, 0)) == std::vector<std::size_t>(6, 1));
  // The loss is of region forward, the gradients of region backward.
  CHECK(bucket_sizes(bucket_collectives(program, 600)) == std::vector<std::size_t>{1, 2, 2, 1});
  CHECK(bucket_sizes(bucket_collectives(program, 1 << 20)) == std::vector<std::size_t>{1, 5});
}

TEST_CASE("joining changes the number of calls, not the bytes") {
  const SpmdProgram program = data_parallel(5), joined = bucket_collectives(program, 1 << 20);
  verify(joined);
  CHECK(traffic(program).at("all_reduce").count == 6);
  CHECK(traffic(joined).at("all_reduce").count == 2);
  CHECK(traffic(program).at("all_reduce").bytes == traffic(joined).at("all_reduce").bytes);
}

TEST_CASE("an all_reduce that is needed before the next one is ready stays alone") {
  // Two row-split layers: the second all_reduce depends on the first.
  const auto model = [](Builder& g, Value x, Value y) {
    for (int i = 0; i < 2; ++i)
      x = tanh(matmul(x, g.parameter(fmt::format("w{}", i), {f32, {8, 8}}, Initializer::normal(0, 1))));
    return mean(square(x - y));
  };
  const Graph graph = training_graph({f32, {8, 8}}, {f32, {8, 8}}, model, {});
  const ShardingPlan plan =
      laid_out_plan(graph, mesh_of({2}), {{"w0", "S0@0"}, {"w1", "S0@0"}, {"%5", "P+@0"}, {"%8", "P+@0"}});
  const SpmdProgram program = bucket_collectives(partition(graph, plan), 1 << 20);
  verify(program);
  const std::vector<std::size_t> sizes = bucket_sizes(program);
  REQUIRE(sizes.size() >= 2);
  CHECK(sizes[0] == 1);
  CHECK(sizes[1] == 1);
}

TEST_CASE("gradients are reduced where they are made, so that the rest of the backward pass overlaps") {
  const SpmdProgram program = bucket_collectives(data_parallel(3), 0);
  verify(program);
  const std::vector<Node>& nodes = program.graph.nodes;
  int reductions = 0;
  for (std::size_t n = 1; n < nodes.size(); ++n) {
    if (nodes[n].op != &ops::all_reduce || nodes[n].region != Region::backward) continue;
    ++reductions;
    CHECK(nodes[n - 1].results[0] == nodes[n].operands[0]);
  }
  CHECK(reductions == 3);
}
