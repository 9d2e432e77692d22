// One forecast of fusion: what the planner prices and counts is what the pass makes.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "src/ir/input.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/facts/fusion.h"
#include "src/plan/facts/graph_facts.h"
#include "src/search/sharding/auto_shard.h"
#include "src/spmd/program.h"
#include "tests/support/gpt_stack.h"

namespace forecast_test {

using namespace alpa;

namespace {

struct Case {
  std::string name;
  Graph graph;
};

Graph elementwise_stack() {
  Recorder g(1);
  const TensorType type{f32, {64, 32}};
  Value x = g.input(InputKind::batch, "x", type);
  const Value state = g.input(InputKind::state, "s", type);
  for (int i = 0; i < 5; ++i) x = tanh(x * 0.5 + state) * x;
  const Value shared = exp(x);
  g.update(state, shared + square(shared));
  g.metric("m", sum(shared, {0, 1}));
  return g.finish();
}

Graph mlp_graph(Optimizer optimizer) {
  const TensorType data{f32, {32, 16}};
  nn::Sequential mlp;
  mlp.add(nn::Dense(24)).add(nn::GELU()).add(nn::Dense(16));
  return training_step(
             {{"x", data}, {"y", data}},
             [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); },
             std::move(optimizer))
      .trace(1);
}

std::vector<Case> cases() {
  return {{"elementwise stack", elementwise_stack()},
          {"MLP with Adam", mlp_graph(optim::Adam{})},
          {"MLP with SGD", mlp_graph(optim::Sgd{})},
          {"GPT-like block",
           testing::gpt_graph({.layers = 1, .batch = 4, .sequence = 8, .hidden = 16, .heads = 2})},
          {"causal GPT-like block", testing::gpt_graph({.layers = 1,
                                                        .batch = 4,
                                                        .sequence = 8,
                                                        .hidden = 16,
                                                        .heads = 2,
                                                        .vocabulary = 32,
                                                        .causal = true})}};
}

spmd::SpmdProgram on_one_device(const Graph& graph) {
  const Cluster cluster = Cluster::local(1);
  return spmd::fuse_elementwise(spmd::partition(
      graph, intra_op::auto_shard(graph, cluster.mesh({1}), cost::CostModel::of(cluster),
                                  intra_op::AutoShardOptions{})));
}

/// Bytes that the node reads and writes on the only device, each operand and result whole.
double bytes_of(const spmd::SpmdProgram& program, const Node& node) {
  double bytes = 0;
  for (const auto* values : {&node.operands, &node.results})
    for (int value : *values) bytes += static_cast<double>(program.graph.type(value).bytes());
  return bytes;
}

bool is_loop(const Node& node) {
  return elementwise_code(node) >= 0 || node.op->elementwise_program;
}

/// By name of the node where the loop stands: how many operands it reads, and bytes.
std::multiset<double> bytes_of_loops(const spmd::SpmdProgram& program) {
  std::multiset<double> bytes;
  for (const Node& node : program.graph.nodes)
    if (is_loop(node)) bytes.insert(bytes_of(program, node));
  return bytes;
}

/// The same as the shares of the members of each forecast loop add up to.
std::multiset<double> forecast_bytes(const Graph& graph) {
  const std::vector<intra_op::LoopShare> shares = intra_op::loop_shares(graph);
  std::multiset<double> all;
  for (const std::vector<int>& loop : intra_op::fusion_groups(graph)) {
    double bytes = 0;
    for (int n : loop) {
      const Node& node = graph.nodes[n];
      for (std::size_t j = 0; j < node.operands.size(); ++j) {
        const TensorType& type = graph.type(node.operands[j]);
        const intra_op::LoopRead& read = shares[n].reads[j];
        double size =
            read.kind == intra_op::LoopRead::Kind::memory ? static_cast<double>(type.bytes()) : 0;
        if (read.kind == intra_op::LoopRead::Kind::through) {
          size = static_cast<double>(size_of(type.dtype));
          for (int d : read.dims) size *= static_cast<double>(type.shape[d]);
        }
        bytes += size;
      }
      if (shares[n].writes[0]) bytes += static_cast<double>(graph.type(node.results[0]).bytes());
    }
    all.insert(bytes);
  }
  return all;
}

/// Seconds of all loops, if a byte takes one and nothing else takes any.
double price_of_loops(const Graph& graph) {
  double seconds = 0;
  for (double bytes : forecast_bytes(graph)) seconds += bytes;
  return seconds;
}

}  // namespace

TEST_CASE("loops as forecast read and write what the fused program's nodes read and write") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    CHECK(forecast_bytes(c.graph) == bytes_of_loops(on_one_device(c.graph)));
  }
}

TEST_CASE("a plan's price is that of the bytes which the fused program moves") {
  cost::CostModel model;
  model.device.memory_bytes_per_second = 1;
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Cluster cluster = Cluster::local(1);
    const ShardingPlan plan =
        intra_op::auto_shard(c.graph, cluster.mesh({1}), model, intra_op::AutoShardOptions{});
    const spmd::SpmdProgram program = spmd::fuse_elementwise(spmd::partition(c.graph, plan));
    double moved = 0;
    for (const Node& node : program.graph.nodes) {
      if (node.op == &ops::input && node.attributes.string("kind") == "batch")
        moved += 2 * static_cast<double>(program.graph.type(node.results[0]).bytes());
      if (node.op != &ops::input && node.op->work != Work::free) moved += bytes_of(program, node);
    }
    CHECK(plan.cost.compute_seconds == doctest::Approx(moved));
    CHECK(price_of_loops(c.graph) > 0);
  }
}

TEST_CASE("the memory count has a value for every result of the fused program and for no other") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const intra_op::Lifetimes lifetimes = intra_op::GraphFacts(c.graph).lifetimes();
    const std::vector<intra_op::LivePoints>& ranges = lifetimes.values;
    const spmd::SpmdProgram program = on_one_device(c.graph);
    // Values of loops, by type: those that live, or are made in place,
    // against those that loops leave.
    std::multiset<std::string> counted, left;
    const std::vector<intra_op::LoopShare> shares = intra_op::loop_shares(c.graph);
    for (const std::vector<int>& loop : intra_op::fusion_groups(c.graph))
      for (int n : loop) {
        const int value = c.graph.nodes[n].results[0];
        const bool lives = ranges[value].from < ranges[value].to;
        if (!shares[n].writes[0]) CHECK(!lives);
        if (lives || shares[n].writes[0]) counted.insert(to_string(c.graph.type(value)));
      }
    for (const Node& node : program.graph.nodes)
      if (is_loop(node))
        for (int value : node.results) left.insert(to_string(program.graph.type(value)));
    CHECK(counted == left);
    // A member runs where the pass puts the loop.
    const std::vector<int>& points = lifetimes.points;
    std::multiset<std::string> forecast, stands;
    for (const std::vector<int>& loop : intra_op::fusion_groups(c.graph)) {
      for (int n : loop) CHECK(points[n] == loop.back());
      const std::string last = c.graph.nodes[loop.back()].name;
      forecast.insert(loop.size() == 1 ? last : fmt::format("{} of {}", last, loop.size()));
    }
    for (const Node& node : program.graph.nodes) {
      if (!is_loop(node)) continue;
      const std::size_t first = node.name.find('+'), second = node.name.rfind('+');
      if (first == std::string::npos) {
        stands.insert(node.name);
        continue;
      }
      const int members = first == second ? 2 : 2 + std::stoi(node.name.substr(first + 1));
      stands.insert(fmt::format("{} of {}", node.name.substr(second + 1), members));
    }
    CHECK(forecast == stands);
  }
}

}  // namespace forecast_test
