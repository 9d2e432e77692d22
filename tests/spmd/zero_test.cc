// A product by zero is zero, on one device and as a partial sum: fused
// programs may hold it as either.
#include <doctest/doctest.h>

#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "support/steps.h"

namespace zero_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// out = body(x, zeros), x f32[4, 6].
Graph graph_of(const std::function<Value(Recorder&, Value x, Value zero)>& body) {
  Recorder g;
  const Value x = g.input(InputKind::batch, "x", {f32, {4, 6}}), zero = constant(g, 0, f32, {4, 6}),
              made = body(g, x, zero);
  g.update(g.input(InputKind::state, "out", made.type()), made);
  return g.finish();
}

/// The zeros and what is made of them as partial sums over two devices, if every such operator can.
spmd::SpmdProgram partial_program(const Graph& graph) {
  const DeviceMesh mesh = mesh_of({2});
  std::vector<Strategy> strategies(graph.nodes.size());
  std::vector<bool> partial(graph.values.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Rule rule = rule_of(graph, node);
    std::uint32_t operands = 0;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      operands |= static_cast<std::uint32_t>(partial[node.operands[i]]) << i;
    for (std::size_t l = 0; l < rule.linear.size(); ++l) {
      const bool zero = node.op == &ops::constant;
      if (!zero && (operands == 0 || rule.linear[l] != operands)) continue;
      strategies[n].axes[0] = {AxisRole::Kind::linear, static_cast<std::uint8_t>(l)};
      partial[node.results[0]] = true;
    }
  }
  const spmd::SpmdProgram program =
      spmd::partition(graph, plan_of(graph, mesh, strategies).value());
  verify(program);
  return program;
}

}  // namespace

TEST_CASE("what is multiplied by zero may be held as a partial sum after fusion as before") {
  const auto mul = [](Recorder& g, Value a, Value b) { return g.emit_one(ops::mul, {a, b}); };
  const std::vector<std::function<Value(Recorder&, Value, Value)>> bodies = {
      [&](Recorder& g, Value x, Value zero) { return mul(g, x, zero); },
      [&](Recorder& g, Value x, Value zero) { return mul(g, zero, exp(x)); },
      [&](Recorder& g, Value x, Value zero) { return mul(g, x, mul(g, zero, x)); },
      [&](Recorder& g, Value x, Value zero) { return mul(g, exp(x), mul(g, x, zero)) * 3.0; },
      [&](Recorder& g, Value x, Value zero) { return -mul(g, x, zero); },
  };
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    CAPTURE(i);
    const Graph graph = graph_of(bodies[i]);
    const spmd::SpmdProgram program = partial_program(graph),
                            fused = spmd::fuse_elementwise(program);
    int partial = 0;
    for (const ShardingSpec& spec : fused.specs) partial += to_string(spec) == "P+@0";
    CHECK(partial == 1);  // the fused result, reduced before the update
    CHECK_NOTHROW(verify(fused));
    runtime::Executor executor(fused);
    const auto state = executor.make_state(1);
    executor.run(*state, random_batch(graph, 1), {});
    for (double value : executor.read(*state, "out").to_doubles()) CHECK(value == 0);
  }
}

TEST_CASE("what is not zero is not a partial sum of one device's number") {
  const auto scaled = [](Recorder& g, Value x, Value zero) {
    return g.emit_one(ops::mul, {x, g.emit_one(ops::mul, {x, zero})});
  };
  spmd::SpmdProgram fused = spmd::fuse_elementwise(partial_program(graph_of(scaled)));
  for (Node& node : fused.graph.nodes)
    if (node.op == &ops::fused) node.attributes.set("constants", std::vector<double>{1.0});
  CHECK_THROWS_AS(verify(fused), Bug);
}

}  // namespace zero_test
