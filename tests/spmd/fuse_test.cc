// What becomes one node, what stays apart, and that joining changes no bit.
#include <doctest/doctest.h>

#include <cstring>

#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/tensor/elementwise_program.h"
#include "support/steps.h"

namespace fuse_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// A graph of one state "out" that takes what `body` makes of batch inputs x and y f32[4, 6].
Graph graph_of(const std::function<Value(Recorder&, Value x, Value y)>& body, DType dtype = f32) {
  Recorder g;
  const Value x = g.input(InputKind::batch, "x", {dtype, {4, 6}}),
              y = g.input(InputKind::batch, "y", {dtype, {4, 6}});
  const Value made = body(g, x, y);
  g.update(g.input(InputKind::state, "out", made.type()), made);
  return g.finish();
}

spmd::SpmdProgram partitioned(const Graph& graph, const Layouts& layouts = {}) {
  const DeviceMesh mesh = mesh_of({2});
  return spmd::partition(
      graph, layouts.empty() ? replicated_plan(graph, mesh) : following_plan(graph, mesh, layouts));
}

/// "einsum fused reduce_sum": operators but inputs, in order.
std::string operators(const spmd::SpmdProgram& program) {
  std::string text;
  for (const Node& node : program.graph.nodes)
    if (node.op != &ops::input) text += (text.empty() ? "" : " ") + std::string(node.op->name);
  return text;
}

std::string fused_operators(const Graph& graph, const Layouts& layouts = {}) {
  const spmd::SpmdProgram program = spmd::fuse_elementwise(partitioned(graph, layouts));
  verify(program);
  return operators(program);
}

Array run_once(const spmd::SpmdProgram& program) {
  runtime::Executor executor(program);
  const auto state = executor.make_state(0);
  executor.run(*state, random_batch(program.graph, 5), scalars_of(program.graph, 1));
  return executor.read(*state, "out");
}

bool same_bits(const Array& a, const Array& b) {
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

/// Fused as said, and bitwise the same result as unfused, on whole tensors and on shards.
void check_fusion(const Graph& graph, const std::string& expected) {
  CHECK(fused_operators(graph) == expected);
  for (const char* layout : {"R", "S0@0", "S1@0"}) {
    CAPTURE(layout);
    const spmd::SpmdProgram program = partitioned(graph, {{"x", layout}, {"y", layout}});
    CHECK(same_bits(run_once(program), run_once(spmd::fuse_elementwise(program))));
  }
}

}  // namespace

TEST_CASE("a chain with constants becomes one node") {
  check_fusion(graph_of([](Recorder&, Value x, Value y) { return exp(x * 0.5 + y) / 3.0; }),
               "fused");
}

TEST_CASE("a value read elsewhere too is a second result") {
  const Graph graph = graph_of([](Recorder&, Value x, Value y) {
    const Value s = x + y, t = tanh(s), sum = alpa::sum(s, {1}, true);
    return t * broadcast_to(sum, {4, 6});
  });
  // tanh is made where the sum is; the product waits for the reduction.
  const spmd::SpmdProgram program = spmd::fuse_elementwise(partitioned(graph));
  CHECK(operators(program) == "fused reduce_sum mul");
  CHECK(program.graph.nodes[2].name == "add+tanh");
  CHECK(program.graph.nodes[2].results.size() == 2);
  check_fusion(graph, "fused reduce_sum mul");
}

TEST_CASE("broadcasts are read through, also along a leading dimension") {
  check_fusion(graph_of([](Recorder& g, Value x, Value y) {
                 const Value rows = g.emit_one(ops::broadcast, {sum(y, {1})},
                                               {{"dims", Axes{0}}, {"shape", Shape{4, 6}}});
                 return x * rows;
               }),
               "reduce_sum fused");
}

TEST_CASE("nodes of other regions, shapes or layouts stay apart") {
  const Graph regions = graph_of([](Recorder& g, Value x, Value y) {
    const Value s = x + y;
    g.set_region(Region::apply);
    return s * s;
  });
  CHECK(fused_operators(regions) == "add mul");
  const Graph shapes = graph_of([](Recorder&, Value x, Value y) {
    return reshape(tanh(reshape(x + y, {24})), {4, 6});
  });
  CHECK(fused_operators(shapes) == "add reshape tanh reshape");
}

TEST_CASE("work does not wait for a collective it can do without") {
  const Graph graph = graph_of([](Recorder&, Value x, Value y) {
    const Value t = square(tanh(x)), sum = alpa::sum(y, {0}, true);
    return t + sum;
  });
  // Rows split: the sum over rows arrives by an all_reduce, which tanh and square do not await.
  CHECK(fused_operators(graph, {{"x", "S0@0"}, {"y", "S0@0"}}) ==
        "fused reduce_sum all_reduce add all_gather");
  CHECK(fused_operators(graph) == "reduce_sum fused");
}

TEST_CASE("half-precision intermediates are rounded as if they were stored") {
  for (DType dtype : {bf16, f16}) {
    const Graph graph =
        graph_of([](Recorder&, Value x, Value y) { return (x * y + x) * (x * y - y); }, dtype);
    check_fusion(graph, "fused");
  }
  const Graph casts = graph_of([](Recorder&, Value x, Value y) {
    return cast(cast(x * y, bf16), f32) + cast(gt(x, y), f32);
  });
  check_fusion(casts, "fused");
}

TEST_CASE("integers and doubles are computed in double") {
  check_fusion(
      graph_of([](Recorder&, Value x, Value y) { return cast(x * 0.1 + y, f32) - 1.0; }, f64),
      "fused fused");
}

TEST_CASE("partial sums pass through what is linear in them") {
  const Graph graph = graph_of([](Recorder& g, Value x, Value y) {
    const Value w = g.input(InputKind::state, "w", {f32, {4, 4}});
    g.update(w, w);
    return (matmul(w, x) + matmul(w, y)) * 2.0;
  });
  const spmd::SpmdProgram program = spmd::partition(
      graph, following_plan(graph, mesh_of({2}), {{"w", "S1@0"}, {"x", "S0@0"}, {"y", "S0@0"}}));
  const spmd::SpmdProgram fused = spmd::fuse_elementwise(program);
  verify(fused);
  CHECK(operators(fused) == "einsum einsum fused all_reduce");
  spmd::SpmdProgram bad = fused;
  for (Node& node : bad.graph.nodes) {
    if (node.op != &ops::fused) continue;
    ElementwiseProgram steps = parse_elementwise_program(node.attributes, 2);
    steps.steps.back().b = steps.steps.back().a;  // the square of a partial sum
    node.attributes.set("code", to_attributes(steps).integers("code"));
  }
  CHECK_THROWS(verify(bad));
}

}  // namespace fuse_test
