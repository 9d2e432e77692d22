// Bounds that searches take over from the same step with fewer micro-batches.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "alpa/mesh/cluster.h"
#include "src/search/stages/range_costs.h"
#include "support/planning_suite.h"

namespace taken_bounds_test {

using namespace alpa;

namespace {

constexpr std::int64_t kMuch = std::int64_t{1} << 50;

/// Costs of the ranges of a model with so many micro-batches, on two hosts of two devices.
struct Costs {
  Costs(const char* model, int micro_batches)
      : graph(testing::suite_step(
                  model,
                  {.stack = {.layers = 2, .batch = 32, .sequence = 16, .hidden = 64, .heads = 4}})
                  .trace(micro_batches)) {
    cluster.num_hosts = 2;
    cluster.between_hosts.beta_seconds_per_byte *= 8;
    options.part.whole_boundary_inputs = true;
    ranges.emplace(graph, cluster, RangeSpace{kMuch, parts, {}}, planning);
  }

  Graph graph;
  Cluster cluster = Cluster::local(2);
  std::vector<inter_op::Submesh> parts = {{1, 1}, {1, 2}, {2, 2}};
  cost::CostModel model = cost::CostModel::of(cluster);
  intra_op::AutoShardOptions options;
  intra_op::PlanningCache cache;
  PlanningContext planning{model, options, cache};
  std::optional<RangeCosts> ranges;
};

}  // namespace

TEST_CASE("what half as many micro-batches take at least bounds the plans of all") {
  double best = 0;  // of a plan's seconds, what is proven by bounds that were taken over
  for (const char* model : {"gpt", "moe", "residual-mlp"})
    for (const auto& [fewer, more] : {std::pair{1, 4}, {2, 4}}) {
      CAPTURE(model);
      CAPTURE(fewer);
      Costs of_fewer(model, fewer), of_more(model, more), planned(model, more);
      const inter_op::LayerRanges& ranges = of_fewer.ranges->ranges();
      CHECK(ranges.are_like(of_more.ranges->ranges()));
      of_fewer.ranges->bound_layers(1e9);
      for (int range = 0; range < ranges.classes(); ++range)
        for (int part = 0; part < 3; ++part)
          while (of_fewer.ranges->bound({{range, part, 1}})) {
          }
      of_more.ranges->take_bounds(*of_fewer.ranges);
      for (int range = 0; range < ranges.classes(); ++range)
        for (int part = 0; part < 3; ++part) {
          const RangeQuery query{range, part, 1};
          planned.ranges->plan(query, {});
          const double seconds = planned.ranges->planned_seconds(query);
          const double proven = of_more.ranges->seconds(query, RangeCosts::Ask::proven);
          CHECK(proven <= seconds * (1 + 1e-9));
          best = std::max(best, proven / seconds);
        }
    }
  CHECK(best > 0.8);
}

TEST_CASE("bounds of another model are not taken over") {
  Costs gpt("gpt", 1), moe("moe", 2);
  CHECK(!gpt.ranges->ranges().are_like(moe.ranges->ranges()));
  const double before = moe.ranges->seconds({0, 0, 1}, RangeCosts::Ask::proven);
  moe.ranges->take_bounds(*gpt.ranges);
  CHECK(moe.ranges->seconds({0, 0, 1}, RangeCosts::Ask::proven) == before);
}

}  // namespace taken_bounds_test
