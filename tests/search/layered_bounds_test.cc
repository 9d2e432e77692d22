// Layers whose tables are too large to be exact are put together from bounds on their cells: the
// plan costs what the solver proves for the whole.
#include <doctest/doctest.h>

#include <array>

#include "search/plans.h"
#include "src/ir/layers.h"
#include "src/ir/subgraph.h"
#include "src/search/layers/layered_plan.h"
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
    proven.limits.relative_gap = 0;
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

}  // namespace layered_bounds_test
