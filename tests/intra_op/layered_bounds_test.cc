// Layers whose tables are too large to be exact are put together from bounds on their cells: the
// plan costs what the solver proves for the whole.
#include <doctest/doctest.h>

#include <array>

#include "intra_op/plans.h"
#include "src/intra_op/layered_plan.h"
#include "src/ir/layers.h"
#include "src/ir/subgraph.h"
#include "support/gpt_stack.h"

namespace layered_bounds_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Cluster cluster_of(const std::array<int, 2>& sizes) {
  return Cluster::from_file(ALPA_SOURCE_DIR "/clusters/a100_8x8.json").submesh(sizes[0], sizes[1]);
}

Graph gpt(int layers) { return gpt_graph({.layers = layers}); }

intra_op::LayeredPlan layered(const Graph& graph, const DeviceMesh& mesh,
                              const cost::CostModel& model, intra_op::PlanningCache& cache) {
  auto result = intra_op::plan_by_layers(graph, mesh, model, {}, cache);
  REQUIRE(std::holds_alternative<intra_op::LayeredPlan>(result));
  verify(std::get<intra_op::LayeredPlan>(result).plan, graph);
  return std::get<intra_op::LayeredPlan>(std::move(result));
}

/// Costs are rounded to nanoseconds.
constexpr double kRounding = 1e-5;

void check_stacks(const std::array<int, 2>& sizes, const std::vector<int>& stacks) {
  const Cluster cluster = cluster_of(sizes);
  const DeviceMesh mesh = cluster.mesh({sizes[0], sizes[1]});
  const cost::CostModel model = cost::CostModel::of(cluster);
  intra_op::PlanningCache cache;
  int known = 0, cells = 0;
  for (int layers : stacks) {
    CAPTURE(layers);
    const Graph graph = gpt(layers);
    const intra_op::LayeredPlan plan = layered(graph, mesh, model, cache);
    CHECK(plan.parts == layers + 1);
    CHECK(plan.tables == std::min(layers + 1, 3));  // the first layer, all others, and the loss
    known += plan.new_tables;
    cells += plan.new_cells;
    intra_op::AutoShardOptions proven;
    proven.relative_gap = 0;
    const ShardingPlan whole = intra_op::auto_shard(graph, mesh, model, proven);
    CHECK(plan.plan.cost.gap() < 1e-9);
    REQUIRE(whole.cost.gap() < 1e-9);
    CHECK(plan.plan.cost.objective_seconds ==
          doctest::Approx(whole.cost.objective_seconds).epsilon(kRounding));
  }
  CHECK(known == 3);
  CHECK(cells < 25);  // of thousands; about 60 without the half sweeps after an ascent
}

}  // namespace

TEST_CASE("GPT blocks on 2x2 by bounds of layers cost what the whole is proven to cost") {
  check_stacks({2, 2}, {1, 3});
}

TEST_CASE("GPT blocks on 2x4 by bounds of layers cost what the whole is proven to cost") {
  check_stacks({2, 4}, {1, 3, 6});
}

TEST_CASE(
    "a range of layers costs what its graph is proven to cost, and equal ranges are known at once") {
  const Graph graph = with_layers(gpt(4));
  const Cluster cluster = cluster_of({2, 2});
  const DeviceMesh mesh = cluster.mesh({2, 2});
  const cost::CostModel model = cost::CostModel::of(cluster);
  intra_op::PlanningCache cache;
  for (const auto& [first, last] : {std::pair{1, 1}, {1, 2}}) {
    CAPTURE(first);
    CAPTURE(last);
    const auto cost = intra_op::range_cost(graph, first, last, mesh, model, {}, cache);
    REQUIRE(std::holds_alternative<intra_op::RangeCost>(cost));
    const Graph range = subgraph(graph, first, last).graph;
    const ShardingPlan whole = intra_op::auto_shard(range, mesh, model, {});
    REQUIRE(whole.cost.gap() < 1e-9);
    CHECK(std::get<intra_op::RangeCost>(cost).seconds ==
          doctest::Approx(whole.cost.objective_seconds).epsilon(kRounding));
    CHECK(std::get<intra_op::RangeCost>(cost).lower_bound ==
          doctest::Approx(whole.cost.objective_seconds).epsilon(kRounding));
  }
  const auto inner = intra_op::range_cost(graph, 1, 2, mesh, model, {}, cache),
             other = intra_op::range_cost(graph, 2, 3, mesh, model, {}, cache);
  CHECK(std::get<intra_op::RangeCost>(other).seconds ==
        std::get<intra_op::RangeCost>(inner).seconds);
}

}  // namespace layered_bounds_test
