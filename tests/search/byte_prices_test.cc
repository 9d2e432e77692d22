// Lower bounds of seconds and the price of bytes, against plans.
#include "src/search/stages/byte_prices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "src/base/infinity.h"
#include "src/ir/input.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/sharding/auto_shard.h"
#include "src/search/sharding/quick_bound.h"
#include "tests/support/gpt_stack.h"

namespace byte_prices_test {

using namespace alpa;

namespace {

/// The plan of least seconds, and some that take less memory.
std::vector<ShardingPlan> plans_of(const Graph& graph, const DeviceMesh& mesh,
                                   const cost::CostModel& model) {
  std::vector<ShardingPlan> plans;
  for (const intra_op::AutoShardOptions& options :
       {intra_op::AutoShardOptions{}, intra_op::data_parallel_options(), intra_op::zero2_options(),
        intra_op::zero3_options()})
    plans.push_back(intra_op::AutoSharding(graph, {mesh}, model, options).plan());
  return plans;
}

/// Bytes of state, sums and copies of state between forward and backward runs.
double bytes_between(const ShardingPlan& plan, const Graph& graph) {
  const intra_op::GraphFacts facts(graph);
  const int backward = intra_op::first_backward(graph);
  double sum = 0;
  for (const intra_op::LiveBytes& live : intra_op::live_bytes(plan, facts)) {
    const Input* input = find_input(graph, live.value);
    if (input && (input->kind == InputKind::state || input->kind == InputKind::accumulator) &&
        live.points.from < backward && live.points.to > backward)
      sum += static_cast<double>(live.bytes);
  }
  return sum;
}

/// A way to run a layer.
struct Choice {
  double seconds = 0, bytes = 0;
};

/// The least seconds of one choice per layer, from this layer on, that fit; infinite: none do.
double least_seconds(const std::vector<std::vector<Choice>>& layers, std::size_t layer,
                     double bytes_left) {
  if (bytes_left < 0) return kInfinity;
  if (layer == layers.size()) return 0;
  double least = kInfinity;
  for (const Choice& choice : layers[layer])
    least = std::min(least,
                     choice.seconds + least_seconds(layers, layer + 1, bytes_left - choice.bytes));
  return least;
}

/// The least seconds and price of bytes of a layer.
double priced(const std::vector<Choice>& choices, double seconds_per_byte) {
  double least = kInfinity;
  for (const Choice& choice : choices)
    least = std::min(least, choice.seconds + seconds_per_byte * choice.bytes);
  return least;
}

}  // namespace

TEST_CASE("prices find nearly the best bound of layers that share a memory") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  int binding = 0;
  for (int problem = 0; problem < 200; ++problem) {
    const double scale = std::pow(10, 6 * uniform(random) - 3), budget = 1e9;
    std::vector<std::vector<Choice>> layers(5);
    double fastest = 0;
    for (std::vector<Choice>& choices : layers) {
      for (int c = 0; c < 3; ++c)
        choices.push_back({scale * (1 + uniform(random)), 0.5 * budget * uniform(random)});
      fastest += priced(choices, 0);
    }
    BytePrices prices;
    const std::vector<double> free(layers.size(), 0), filled(layers.size(), 0);
    const int last = static_cast<int>(layers.size()) - 1;
    while (const auto price = prices.next(0, last, {}, budget, fastest)) {
      for (int layer = 0; layer <= last; ++layer)
        prices.set(*price, layer, priced(layers[layer], BytePrices::seconds_of(*price) / budget));
      prices.sum(free, filled);
    }
    double best = 0;
    for (double price = scale / 1000; price < 1000 * scale; price *= 1.05) {
      double sum = -price;
      for (const std::vector<Choice>& choices : layers) sum += priced(choices, price / budget);
      best = std::max(best, sum);
    }
    const double bound = prices.least(0, last, {}, budget);
    CHECK(bound <= least_seconds(layers, 0, budget) * (1 + 1e-9));
    if (best > 1.02 * fastest) CHECK(bound >= 0.93 * best), ++binding;
  }
  CHECK(binding > 50);
}

TEST_CASE("prices of larger micro-batches bound smaller ones") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(0, 1);
  int binding = 0;
  for (int problem = 0; problem < 100; ++problem) {
    const double budget = 1e9;
    const int times = 2 << (problem % 3);
    std::vector<std::vector<Choice>> small(4), large(4);
    for (std::size_t layer = 0; layer < small.size(); ++layer)
      for (int c = 0; c < 3; ++c) {
        small[layer].push_back({1 + uniform(random), 0.5 * budget * uniform(random)});
        // A larger one takes at most so many times as long.
        large[layer].push_back(
            {times * small[layer].back().seconds * (0.95 + 0.05 * uniform(random)),
             small[layer].back().bytes});
      }
    BytePrices of_large, of_small;
    const int last = static_cast<int>(small.size()) - 1;
    const std::vector<double> none(small.size(), 0);
    for (int price = -6; price < 8; ++price)
      for (int layer = 0; layer <= last; ++layer)
        of_large.set(price, layer, priced(large[layer], BytePrices::seconds_of(price) / budget));
    of_small.take(of_large, times);
    of_small.sum(none, none);
    const double bound = of_small.least(0, last, {}, budget);
    double fastest = 0;
    for (const std::vector<Choice>& choices : small) fastest += priced(choices, 0);
    CHECK(bound <= least_seconds(small, 0, budget) * (1 + 1e-9));
    binding += bound > fastest;
    of_small.take(of_large, 3);  // no power of two: nothing is taken
    of_small.sum(none, none);
    CHECK(of_small.least(0, last, {}, budget) == bound);
  }
  CHECK(binding > 10);
}

TEST_CASE("no plan takes less than the bound of seconds and the price of its bytes") {
  const Cluster cluster = Cluster::named("p3.16xlarge");
  const cost::CostModel model = cost::CostModel::of(cluster);
  int paying = 0;
  for (const std::vector<int>& shape : {std::vector{8}, std::vector{2, 4}})
    for (const int micro_batches : {1, 4}) {
      const DeviceMesh mesh = cluster.mesh(shape);
      const Graph graph =
          testing::gpt_step({.layers = 1, .batch = 64, .sequence = 128, .hidden = 512})
              .trace(micro_batches);
      const std::vector<ShardingPlan> plans = plans_of(graph, mesh, model);
      const auto shared = std::make_shared<const intra_op::GraphFacts>(graph);
      intra_op::PlanningCache cache;
      const auto bound = [&](double price) {
        return intra_op::quick_bound(shared, {}, cache.of(mesh, model), false,
                                     {.seconds = price, .budget = 1})();
      };
      const double free = bound(0);
      for (double price = 1e-13; price < 1e-8; price *= 4) {
        CAPTURE(micro_batches);
        CAPTURE(price);
        double least = kInfinity;
        for (const ShardingPlan& plan : plans)
          least = std::min(least, plan.cost.objective_seconds + price * bytes_between(plan, graph));
        const double with_price = bound(price);
        CHECK(with_price <= least * (1 + 1e-9));
        CHECK(with_price >= 0.99 * free);
        if (price < 5e-12) CHECK(with_price >= 0.98 * least);  // dearer bytes ask for other plans
        paying += with_price > 1.1 * free;
      }
    }
  CHECK(paying > 4);
}

}  // namespace byte_prices_test
