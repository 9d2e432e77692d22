// Bounds on a step of which any layers may be computed again, against the plans of every choice.
#include "src/search/stages/recomputable.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "alpa/alpa.h"
#include "search/residual_mlp.h"
#include "src/base/infinity.h"
#include "src/search/stages/stage_search.h"

namespace recomputable_test {

using namespace alpa;

namespace {

constexpr testing::ResidualMlp kMlp, kGated = {.is_gated = true};
constexpr int kLayers = kMlp.layers, kAll = kMlp.all();

/// Layers whose bit of `set` is 1 are computed again.
Graph graph_of(int set, int micro_batches, const testing::ResidualMlp& model = kMlp) {
  return model.graph(set, micro_batches, optim::Adam{});
}

struct Searches {
  explicit Searches(int devices) : cluster(Cluster::local(devices)) {
    options.part.whole_boundary_inputs = true;
    options.limits.relative_gap = 0;
  }

  StageSearchSpace space(const Graph& graph, std::int64_t budget) const {
    StageSearchSpace space{graph, cluster};
    space.budget = budget;
    space.submeshes = inter_op::submesh_choices({1, cluster.devices_per_host},
                                                inter_op::SubmeshSpace::power_of_two);
    return space;
  }

  /// Of the best stages; infinite: none fit.
  double planned(const Graph& graph, std::int64_t budget) const {
    StageSearch search(space(graph, budget), {model, options, cache});
    while (search.improve()) {
    }
    return search.best_seconds();
  }

  double bound(const Graph& graph, std::int64_t budget) const {
    const inter_op::RecomputableStep step =
        inter_op::recomputable(graph, cluster.num_devices(), model);
    StageSearchSpace question = space(step.graph, budget);
    question.recomputable = &step.bytes;
    StageSearch search(std::move(question), {model, options, cache});
    while (search.prove(kInfinity)) {
    }
    return search.bound();
  }

  Cluster cluster;
  cost::CostModel model = cost::CostModel::of(cluster);
  intra_op::AutoShardOptions options;
  mutable intra_op::PlanningCache cache;
};

}  // namespace

TEST_CASE("what is computed again is taken out, and counted as it would be kept") {
  const Graph graph = graph_of(kAll, 4);
  const inter_op::RecomputableStep step =
      inter_op::recomputable(graph, 2, cost::CostModel::of(Cluster::local(2)));
  verify(step.graph);
  CHECK(std::ranges::any_of(graph.nodes, &Node::again));
  CHECK(std::ranges::none_of(step.graph.nodes, &Node::again));
  CHECK(flops_per_step(step.graph) == flops_per_step(graph_of(0, 4)));
  REQUIRE(step.bytes.of_layers.size() == kLayers);
  // Gradients read relu's result, of f32, and its mask in a loop that may keep nothing.
  const double relu_bytes = 4.0 * kMlp.rows / 4 * kMlp.inner;
  for (const double bytes : step.bytes.of_layers) {
    CHECK(bytes >= relu_bytes);
    CHECK(bytes <= 2 * relu_bytes);
  }
  CHECK(step.bytes.seconds_per_byte > 0);
  CHECK(step.bytes.seconds_per_byte < kInfinity);
}

TEST_CASE("of a gated layer that is computed again, what it keeps otherwise is counted") {
  const Graph graph = graph_of(kAll, 4, kGated);
  const inter_op::RecomputableStep step =
      inter_op::recomputable(graph, 2, cost::CostModel::of(Cluster::local(2)));
  verify(step.graph);
  CHECK(flops_per_step(step.graph) == flops_per_step(graph_of(0, 4, kGated)));
  // gate, up, and the operand of down
  for (const double bytes : step.bytes.of_layers)
    CHECK(bytes <= 3 * 4.0 * kGated.rows / 4 * kGated.inner);
}

TEST_CASE("no plan of any layers computed again takes less than the bound on all of them") {
  int binding = 0;
  for (const auto& [devices, micro_batches, model] :
       {std::tuple(1, 1, kMlp), {1, 4, kMlp}, {4, 1, kMlp}, {4, 4, kMlp}, {4, 4, kGated}}) {
    const Searches searches(devices);
    const Graph all = graph_of(kAll, micro_batches, model);
    const double free = searches.bound(all, std::int64_t{1} << 50);
    for (std::int64_t budget = 24'000; budget < 400'000; budget = budget * 3 / 2) {
      CAPTURE(devices);
      CAPTURE(micro_batches);
      CAPTURE(budget);
      double least = kInfinity;
      for (int set = 0; set <= kAll; ++set)
        least = std::min(least, searches.planned(graph_of(set, micro_batches, model), budget));
      const double bound = searches.bound(all, budget);
      CHECK(bound <= least * (1 + 1e-9));
      CHECK(bound >= free * (1 - 1e-3));  // bounds are exact up to a thousandth
      binding += least < kInfinity && bound > free * 1.001;
    }
  }
  CHECK(binding > 0);
}

}  // namespace recomputable_test
