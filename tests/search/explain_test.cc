// A plan in words: the summary of ten lines, and the listing behind it.
#include <doctest/doctest.h>

#include <algorithm>

#include "alpa/base/text.h"
#include "alpa/plan/sharding_plan.h"
#include "search/graphs.h"
#include "search/plans.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/node_classes.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/sharding/auto_shard.h"

namespace explain_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    lines.push_back(text.substr(begin, text.find('\n', begin) - begin));
  return lines;
}

/// Extra seconds of the cheapest plan with another strategy at one of the twelve most expensive
/// nodes; every such plan is made and priced as a whole.
double cheapest_change(const ShardingPlan& plan, const Graph& graph, const cost::CostModel& model) {
  const intra_op::GraphFacts facts(graph);
  const std::vector<double> seconds = intra_op::part_seconds(plan, facts, model).nodes;
  const double total = evaluate(plan, graph, model).objective_seconds;
  std::vector<int> order;
  for (int n = 0; n < static_cast<int>(seconds.size()); ++n)
    if (!graph.nodes[n].operands.empty()) order.push_back(n);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return seconds[a] > seconds[b]; });
  order.resize(12);
  cost::ReshardPrices prices(plan.mesh, model.reshard);
  double least = total;
  for (int n : order)
    for (const Strategy& strategy : intra_op::all_strategies(facts.classes.of(n).rule, plan.mesh)) {
      std::vector<Strategy> strategies = plan.strategies;
      if (strategy == strategies[n]) continue;
      strategies[n] = strategy;
      const ShardingPlan other = intra_op::plan_of_strategies(facts, plan.mesh, strategies, prices);
      least = std::min(least, intra_op::evaluate(other, facts, model).objective_seconds - total);
    }
  return least;
}

}  // namespace

TEST_CASE(
    "the summary says where time and memory go, what is split how, and what the next best plan "
    "costs") {
  const Graph graph = mlp_graph({.layers = 2, .batch = 512, .width = 64});
  const cost::CostModel model = some_model();
  const ShardingPlan plan =
      intra_op::auto_shard(graph, some_mesh({4}), model, intra_op::data_parallel_options());
  const PlanCost cost = evaluate(plan, graph, model);
  const std::vector<std::string> lines =
      lines_of(explain(plan, graph, model, Detail::summary, 1 << 20));
  CAPTURE(explain(plan, graph, model));
  REQUIRE(lines.size() == 7);
  CHECK(lines[0] ==
        fmt::format(
            "Plan           data on mesh 4 (4 devices): {} per step predicted, proven optimal",
            seconds_text(cost.objective_seconds)));
  // Five products of 2·512·64·64 operations, a quarter of them on each device.
  CHECK(lines[1].starts_with(fmt::format("Compute        {} ({:.0f} %): einsum 5.2 ms, ",
                                         seconds_text(cost.compute_seconds),
                                         100 * cost.compute_seconds / cost.objective_seconds)));
  CHECK(lines[2] == fmt::format("Communication  {0} ({1:.0f} %): all_reduce {0}",
                                seconds_text(cost.communication_seconds),
                                100 * cost.communication_seconds / cost.objective_seconds));
  // 2·(64·64 + 64) numbers of four bytes, and Adam's two for each.
  CHECK(lines[3] ==
        "Memory         1.0 MiB per device: parameters 0.032 MiB, optimizer state 0.063 MiB, "
        "values of the step 0.90 MiB");
  CHECK(lines[4] == "Batch          x, y: rows split over x (4 devices)");
  CHECK(lines[5] ==
        "Split          dense0.kernel, dense0.bias, dense1.kernel and 1 more: a copy on every "
        "device");
}

TEST_CASE(
    "the next best plan is the cheapest that does one of the most expensive operators in another "
    "way") {
  const Graph graph = mlp_graph({.layers = 2, .batch = 512, .width = 64});
  const cost::CostModel model = some_model();
  const auto next_best = [&](const ShardingPlan& plan) {
    return lines_of(explain(plan, graph, model)).back();
  };
  const ShardingPlan best = intra_op::auto_shard(graph, some_mesh({4}), model, {});
  const double extra = cheapest_change(best, graph, model);
  REQUIRE(extra > 0);
  CHECK(next_best(best).starts_with("Next best      +" + seconds_text(extra) + " (+"));
  CHECK(next_best(best).ends_with(", all else equal"));
  const ShardingPlan data =
      intra_op::auto_shard(graph, some_mesh({4}), model, intra_op::data_parallel_options());
  const double less = cheapest_change(data, graph, model);
  REQUIRE(less < 0);
  CHECK(next_best(data) ==
        fmt::format(
            "Next best      {} ({:+.1f} %): multi_tensor_adam \"multi_tensor_adam\" with rows of "
            "the result "
            "split over x, all else equal; excluded by the method, "
            "the memory budget or the time for planning",
            seconds_text(less), 100 * less / data.cost.objective_seconds));
}

TEST_CASE("the summary keeps to ten lines, whatever the number of layouts") {
  const Graph graph = mlp_graph({.layers = 4, .batch = 16, .width = 16});
  ShardingPlan plan = intra_op::auto_shard(graph, some_mesh({2, 2}), some_model(), {});
  int layout = 0;  // the summary tells what the plan says, another layout for every parameter
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::state || !input.of.empty() || graph.type(input.value).rank() != 2)
      continue;
    plan.specs[input.value] = ShardingSpec{}.split(layout % 2, layout / 2 % 2);
    ++layout;
  }
  const std::vector<std::string> lines = lines_of(explain(plan, graph, some_model()));
  CAPTURE(explain(plan, graph, some_model()));
  CHECK(lines.size() == 10);
  CHECK(lines[7].starts_with("               "));
  CHECK(lines[7].find(" more parameters in ") != std::string::npos);
}

TEST_CASE("a plan priced for another cluster is not called optimal") {
  const Graph graph = mlp_graph({.layers = 1, .batch = 8, .width = 4, .bias = false});
  const ShardingPlan plan =
      intra_op::auto_shard(graph, some_mesh({2}), some_model(), intra_op::data_parallel_options());
  cost::CostModel slower = some_model();
  slower.device.launch_seconds = 1e-3;
  const std::string line = lines_of(explain(plan, graph, slower)).front();
  CAPTURE(line);
  CHECK(line.ends_with("per step predicted, for a cluster where it was planned " +
                       seconds_text(plan.cost.objective_seconds)));
}

TEST_CASE("ZeRO's optimizer state is told beside the parameters it belongs to") {
  const Graph graph = mlp_graph({.layers = 2, .batch = 512, .width = 64});
  const ShardingPlan plan =
      intra_op::auto_shard(graph, some_mesh({4}), some_model(), intra_op::zero2_options());
  const std::string text = explain(plan, graph, some_model());
  CAPTURE(text);
  CHECK(text.find("a copy on every device; optimizer state ") != std::string::npos);
}

TEST_CASE(
    "the full listing follows the summary: state by layout, communications with their reasons, "
    "and choices") {
  const Graph graph = mlp_graph({.layers = 2, .batch = 512, .width = 64});
  const cost::CostModel model = some_model();
  const ShardingPlan plan =
      intra_op::auto_shard(graph, some_mesh({4}), model, intra_op::data_parallel_options());
  const std::string text = explain(plan, graph, model, Detail::full);
  CAPTURE(text);
  CHECK(text.starts_with(
      explain(plan, graph, model) +
      "\nState, a line per layout\n"
      "  a copy on every device; every device updates its copy: dense0.kernel f32[64, 64], "));
  CHECK(text.find("all_reduce over x of f32[64, 64] from einsum") != std::string::npos);
  CHECK(text.find(
            "because it is left with partial over x (4 devices) and wanted with a copy on every "
            "device") != std::string::npos);
  CHECK(text.find("\n             +") != std::string::npos);  // what another choice costs more
  const ShardingPlan split =
      intra_op::auto_shard(graph, some_mesh({4}), model, intra_op::zero2_options());
  CHECK(explain(split, graph, model, Detail::full)
            .find("split over x (4 devices); updated in place, each device its part: ") !=
        std::string::npos);
}

}  // namespace explain_test
