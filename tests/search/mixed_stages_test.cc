// Stages some of which compute their layers again, against the plans of every choice of layers.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "alpa/alpa.h"
#include "search/residual_mlp.h"
#include "src/base/infinity.h"
#include "src/search/stages/stage_search.h"

namespace mixed_stages_test {

using namespace alpa;

namespace {

constexpr int kLayers = 4, kMicroBatches = 8;
constexpr testing::ResidualMlp kMlp{.layers = kLayers};

Graph residual_mlp(int set) { return kMlp.graph(set, kMicroBatches, optim::Sgd{}); }

struct Context {
  explicit Context(int devices) : cluster(Cluster::local(devices)) {
    options.part.whole_boundary_inputs = true;
    options.limits.relative_gap = 0;
  }
  StageSearchSpace space(const Graph& graph, std::int64_t budget) const {
    StageSearchSpace space{graph, cluster};
    space.budget = budget;
    space.submeshes = {{1, 1}};  // a stage per device
    return space;
  }
  PlanningContext planning() { return {model, options, cache}; }

  Cluster cluster;
  cost::CostModel model = cost::CostModel::of(cluster);
  intra_op::AutoShardOptions options;
  intra_op::PlanningCache cache;
};

void search_on(StageSearch& search) {
  while (search.improve()) {
  }
}

double planned_seconds(Context& context, int set, std::int64_t budget) {
  const Graph graph = residual_mlp(set);
  StageSearch search(context.space(graph, budget), context.planning());
  search_on(search);
  return search.best_seconds();
}

}  // namespace

TEST_CASE("stages that have room keep what their layers compute, and the search stays as it was") {
  Context context(kLayers);
  const Graph again = residual_mlp(kMlp.all()), kept = residual_mlp(0);
  int mixed_stages = 0;
  for (std::int64_t budget = 8'000; budget < 100'000; budget = budget * 5 / 4) {
    CAPTURE(budget);
    StageSearch all(context.space(again, budget), context.planning());
    StageSearch none(context.space(kept, budget), context.planning());
    search_on(all);
    const double of_all = all.best_seconds();
    const std::optional<FoundStages> mixed = all.mixed_with(none, 1e6, 1e6);
    CHECK(all.best_seconds() == of_all);
    if (!mixed) continue;
    CHECK(mixed->seconds < of_all);
    REQUIRE(mixed->graphs.size() == mixed->partition.stages.size());
    int set = 0;  // the same layers by themselves
    for (std::size_t s = 0; s < mixed->graphs.size(); ++s) {
      const inter_op::Stage& stage = mixed->partition.stages[s];
      for (int layer = stage.first_layer; layer <= stage.last_layer; ++layer)
        set |= mixed->graphs[s] == 0 ? 1 << layer : 0;
      REQUIRE(mixed->plans[s]);
    }
    CHECK(mixed->seconds == doctest::Approx(planned_seconds(context, set, budget)));
    mixed_stages += set != 0;
  }
  CHECK(mixed_stages > 0);
}

TEST_CASE("either of two tables costs the least of both, for as many micro-batches in flight") {
  using inter_op::PartitionCosts;
  constexpr int kTableLayers = 3, kSubmeshes = 2, kMost = 4;
  // Ranges of equal length are alike in one table, and those that end alike in the other.
  std::vector<int> by_length, by_end;
  for (int first = 0; first < kTableLayers; ++first)
    for (int last = 0; last < kTableLayers; ++last) {
      by_length.push_back(std::max(last - first, 0));
      by_end.push_back(last);
    }
  PartitionCosts a(kTableLayers, by_length, kSubmeshes, 2);
  PartitionCosts b(kTableLayers, by_end, kSubmeshes, 1);
  for (std::size_t at = 0; at < a.seconds.size(); ++at)
    a.seconds[at] = 10.0 + 3 * at, a.max_in_flight[at] = 1 + at % kMost;
  for (std::size_t at = 0; at < b.seconds.size(); ++at)
    b.seconds[at] = 26.0 - 2 * at, b.max_in_flight[at] = 1 + (at + 1) % kMost;
  const auto least = [](const PartitionCosts& costs, int first, int last, int m, int in_flight) {
    double seconds = kInfinity;
    for (int c = 0; c < costs.configurations; ++c)
      if (const std::size_t at = costs.index(first, last, m, c);
          costs.max_in_flight[at] >= in_flight)
        seconds = std::min(seconds, costs.seconds[at]);
    return seconds;
  };
  const PartitionCosts both = inter_op::either(a, b);
  for (int first = 0; first < kTableLayers; ++first)
    for (int last = first; last < kTableLayers; ++last)
      for (int m = 0; m < kSubmeshes; ++m)
        for (int in_flight = 1; in_flight <= kMost; ++in_flight)
          CHECK(least(both, first, last, m, in_flight) ==
                std::min(least(a, first, last, m, in_flight), least(b, first, last, m, in_flight)));
}

TEST_CASE("estimates are those of plans where there are any, and scale to other layers") {
  Context context(kLayers);
  const Graph graph = residual_mlp(0);
  const std::int64_t budget = 1 << 20;
  RangeCosts costs(graph, context.cluster, {budget, {{1, 1}}}, context.planning());
  const auto query = [&](int first, int last) {
    return RangeQuery{costs.ranges().class_of(first, last), 0, 1};
  };
  CHECK(costs.estimated_seconds(query(1, 1)) == kInfinity);
  costs.plan(query(1, 2), {});
  CHECK(costs.estimated_seconds(query(1, 2)) == costs.planned_seconds(query(1, 2)));
  const double estimated = costs.estimated_seconds(query(1, 1));
  costs.plan(query(1, 1), {});
  CHECK(estimated == doctest::Approx(costs.planned_seconds(query(1, 1))).epsilon(0.2));
}

}  // namespace mixed_stages_test
