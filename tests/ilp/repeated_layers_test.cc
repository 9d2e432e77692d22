// Elimination computes what equal layers have in common once.
#include <doctest/doctest.h>

#include <random>

#include "src/ilp/solve.h"

namespace alpa::ilp::repeated_layers_test {
namespace {

constexpr int kStrategies = 24, kRungs = 2;

Table random_table(std::mt19937& engine) {
  std::uniform_int_distribution<std::int64_t> cost(0, 1000);
  std::vector<std::int64_t> costs(kStrategies * kStrategies);
  for (std::int64_t& c : costs) c = cost(engine);
  return table(std::move(costs));
}

/// Layers of two nodes each, every node joined to both of the next layer and to its neighbour: what
/// stands between layers is a table over two nodes, which no reduction of leaves and paths touches.
Problem ladder(int layers) {
  std::mt19937 engine(7);
  const std::vector<Table> across{random_table(engine), random_table(engine), random_table(engine),
                                  random_table(engine)};
  const Table rung = random_table(engine);
  Problem problem;
  for (int n = 0; n < kRungs * layers; ++n)
    problem.nodes.push_back({std::vector<std::int64_t>(kStrategies, 0), {}});
  for (int layer = 0; layer < layers; ++layer) {
    problem.edges.push_back({kRungs * layer, kRungs * layer + 1, rung});
    if (layer == 0) continue;
    for (int a : {0, 1})
      for (int b : {0, 1})
        problem.edges.push_back({kRungs * (layer - 1) + a, kRungs * layer + b, across[2 * a + b]});
  }
  return problem;
}

/// Work that is enough if layers share what they have in common, and by far too little if not.
Solution solve_cheaply(int layers) {
  Options options;
  options.limits.work = 300'000'000;
  return solve(ladder(layers), options);
}

}  // namespace

TEST_CASE(
    "a thousand equal layers take hardly more work than a hundred, and cost what they add up to") {
  const Solution hundred = solve_cheaply(100), more = solve_cheaply(110),
                 thousand = solve_cheaply(1000);
  CHECK(hundred.optimal);
  CHECK(thousand.optimal);
  // Costs per layer are periodic in the end: here with period 1, 2, 5 or 10.
  CHECK(thousand.cost - hundred.cost == 90 * (more.cost - hundred.cost));
}

}  // namespace alpa::ilp::repeated_layers_test
