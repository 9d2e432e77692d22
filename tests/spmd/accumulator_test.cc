// Region apply reads a sum over micro-batches where its accumulator holds it: on paths that were
// planned and priced, with the collectives that are allowed.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "src/ir/recorder.h"
#include "src/search/sharding/auto_shard.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace accumulator_test {

using namespace alpa;
using namespace alpa::testing;
using alpa::testing::error_of;

namespace {

/// w1, w2 and biases trained on two micro-batches; the loss is reported.
Graph two_micro_batches(std::int64_t rows, std::int64_t width) {
  const auto model = [=](Recorder& g, Value x, Value y) {
    const Value w = g.parameter("w", {f32, {width, 2 * width}}, Initializer::normal(0, 1)),
                v = g.parameter("v", {f32, {2 * width, width}}, Initializer::normal(0, 1));
    return mean(square(matmul(tanh(matmul(x, w)), v) - y));
  };
  return training_graph({f32, {rows, width}}, {f32, {rows, width}}, model,
                        {.num_micro_batches = 2, .optimizer = StepOptimizer::adam});
}

/// Steps by kind; `once` counts those of region apply alone.
std::map<std::string, int> emitted(const spmd::SpmdProgram& program, bool once) {
  std::map<std::string, int> counts;
  for (const Node& node : program.graph.nodes) {
    const bool reshards =
        spmd::is_collective(node) || node.op == &ops::slice_shard || node.op == &ops::to_partial;
    if (reshards && (node.region == Region::apply) == once)
      ++counts[node.op == &ops::slice_shard ? "slice" : std::string(node.op->name)];
  }
  return counts;
}

std::map<std::string, int> planned(const ShardingPlan& plan, const Graph& graph, bool once) {
  std::map<std::string, int> counts;
  for (const PlannedReshard& r : plan.reshards)
    for (const ReshardStep& step : r.path.steps)
      if ((region_of_use(graph, r.uses.front()) == Region::apply) == once)
        ++counts[std::string(name_of(step.kind))];
  return counts;
}

cost::CostModel random_model(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<double> values) {
    return values.begin()[random() % values.size()];
  };
  cost::CostModel model;
  model.device.flops_per_second[f32] = pick({0, 1e6, 1e9});
  model.device.memory_bytes_per_second = pick({0, 1e4, 1e8});
  model.reshard.memory_bytes_per_second = model.device.memory_bytes_per_second;
  model.reshard.launch_seconds = model.device.launch_seconds = pick({0, 1e-6});
  return model;
}

/// Four states of 1 KiB become what their accumulators hold after two micro-batches.
Graph kept_for_apply() {
  Recorder g(2);
  const Value x = g.input(InputKind::batch, "x", {f32, {16, 16}});
  Values held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(tanh(x * (1.0 + i)));
    g.update(g.input(InputKind::accumulator, fmt::format("kept{}", i), x.type()), held.back());
  }
  g.set_region(Region::apply);
  for (int i = 0; i < 4; ++i) g.update(g.parameter(fmt::format("w{}", i), x.type(), {}), held[i]);
  return g.finish();
}

/// States whole on both devices of a mesh on which each collective takes a second, within 9000
/// bytes: whole accumulators do not fit.
ShardingPlan plan_in_9000_bytes(const Graph& graph, bool allow_all_gather) {
  intra_op::AutoShardOptions options;
  options.allowed.parameters = intra_op::Holding::whole;
  options.memory_budget_bytes = 9000;
  options.allowed.all_gather = allow_all_gather;
  return intra_op::auto_shard(graph, DeviceMesh({{"x", 2, 1, 0}}), cost::CostModel{}, options);
}

}  // namespace

TEST_CASE("what apply gathers from an accumulator held in parts is paid for") {
  const Graph graph = kept_for_apply();
  const ShardingPlan plan = plan_in_9000_bytes(graph, true);
  const spmd::SpmdProgram program = spmd::partition(graph, plan);
  verify(program);
  CHECK(emitted(program, true).at("all_gather") >= 1);
  double seconds = 0;
  for (const auto& [kind, sent] : spmd::traffic(program))
    seconds += static_cast<double>(sent.count);
  CHECK(plan.cost.communication_seconds == doctest::Approx(seconds));
}

TEST_CASE("what apply may not gather is no plan") {
  const Graph graph = kept_for_apply();
  try {
    const spmd::SpmdProgram program = spmd::partition(graph, plan_in_9000_bytes(graph, false));
    FAIL_CHECK(to_string(program));
  } catch (const intra_op::OverBudget& error) {
    CHECK(std::string(error.what()).find("9000 bytes per device") != std::string::npos);
  }
}

TEST_CASE("the partitioner emits in region apply what the plan lists, and nothing else") {
  // s holds the sum whole on each device, its accumulator in halves: apply
  // gathers it once per step.
  Recorder g(2);
  const Value x = g.input(InputKind::batch, "x", {f32, {4, 6}}),
              held = g.input(InputKind::accumulator, "sum", {f32, {4, 6}}), s = held + x;
  g.update(held, s);
  g.set_region(Region::apply);
  const Value w = g.input(InputKind::state, "w", {f32, {4, 6}});
  g.update(w, tanh(s));
  const Graph graph = g.finish();
  const DeviceMesh mesh = mesh_of({2});
  std::vector<Strategy> strategies(graph.nodes.size());
  strategies[graph.values[held.id].producer].axes[0] = {AxisRole::Kind::factor, 1};
  ShardingPlan plan = plan_of(graph, mesh, strategies).value();
  verify(plan, graph);
  using Counts = std::map<std::string, int>;
  const spmd::SpmdProgram program = spmd::partition(graph, plan);
  verify(program);
  CHECK(emitted(program, false) == Counts{{"all_gather", 1}, {"slice", 1}});
  CHECK(emitted(program, true) == Counts{{"all_gather", 1}});
  // Where the gather is not planned, there is none to be had.
  plan.reshards.erase(plan.reshards.begin() + 1);
  CHECK(error_of([&] { verify(plan, graph); }) ==
        fmt::format(
            "plan: tanh \"tanh\" wants value {} as R but it is left as S1@0 and no resharding "
            "provides it",
            s.id));
  CHECK_THROWS_AS(spmd::partition(graph, plan), Bug);
}

TEST_CASE("whatever is cheap, plans hold every step that is emitted, and none that is forbidden") {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const Graph graph = two_micro_batches(2 * (4 + random() % 5), 3 + random() % 6);
    const cost::CostModel model = random_model(random);
    intra_op::AutoShardOptions options =
        round % 3 == 0 ? intra_op::zero2_options() : intra_op::AutoShardOptions{};
    options.allowed.all_gather = random() % 2 == 0;
    options.allowed.all_to_all = random() % 2 == 0;
    std::vector<MeshAxis> axes;
    for (int size : round % 2 ? std::vector<int>{2, 2} : std::vector<int>{3})
      axes.push_back({std::string(1, "xy"[axes.size()]), size,
                      1e-6 * static_cast<double>(random() % 2),
                      std::pow(10, -static_cast<double>(6 + random() % 6))});
    CAPTURE(round);
    try {
      const ShardingPlan plan = intra_op::auto_shard(graph, DeviceMesh(axes), model, options);
      const spmd::SpmdProgram program = spmd::partition(graph, plan);
      verify(program);
      for (bool once : {false, true}) CHECK(emitted(program, once) == planned(plan, graph, once));
      for (bool once : {false, true}) {
        if (!options.allowed.all_gather) CHECK_FALSE(emitted(program, once).contains("all_gather"));
        if (!options.allowed.all_to_all) CHECK_FALSE(emitted(program, once).contains("all_to_all"));
      }
    } catch (const Error& error) {  // nothing keeps to the options
      CHECK(std::string(error.what()).find("satisfies the options") != std::string::npos);
    }
  }
}

}  // namespace accumulator_test
