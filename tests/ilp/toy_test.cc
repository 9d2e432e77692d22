/// The toy problem of the auto-sharding solver's own unit tests: five nodes, two of
/// which must agree pairwise.
#include <doctest/doctest.h>

#include "src/ilp/solve.h"

namespace alpa::ilp::toy_test {
namespace {

using Costs = std::vector<std::int64_t>;

Costs ramp(std::int64_t first, std::int64_t step, int count) {
  Costs costs;
  for (int i = 0; i < count; ++i) costs.push_back(first + step * i);
  return costs;
}

/// offset + 1000 p + 100 q
Table slope(std::int64_t offset, int rows, int columns) {
  Costs costs;
  for (int p = 0; p < rows; ++p)
    for (int q = 0; q < columns; ++q) costs.push_back(offset + 1000 * p + 100 * q);
  return table(std::move(costs));
}

Table agreement(const Costs& diagonal) {
  Costs costs;
  for (std::size_t p = 0; p < diagonal.size(); ++p)
    for (std::size_t q = 0; q < diagonal.size(); ++q)
      costs.push_back(p == q ? diagonal[p] : kInfinite);
  return table(std::move(costs));
}

Problem toy() {
  Problem problem;
  problem.nodes = {{ramp(110, 11, 4), {{0, 5, {100'000, 110'000, 990'000, 130'000}}}},
                   {ramp(220, 11, 3), {{0, 5, {200'000, 210'000, 220'000}}}},
                   {ramp(330, 11, 4), {{2, 4, {300'000, 310'000, 320'000, 330'000}}}},
                   {ramp(440, 11, 4), {{3, 5, {400'000, 410'000, 420'000, 430'000}}}},
                   {ramp(550, 11, 3), {}}};
  problem.edges = {{0, 2, slope(1000, 4, 4)},
                   {1, 2, slope(5000, 3, 4)},
                   {1, 4, agreement({0, 0, 0})},
                   {2, 3, agreement({0, 0, 0, 0})}};
  problem.usage_limit = 1'500'000;
  return problem;
}

void check(const Problem& problem, std::int64_t cost, const std::vector<int>& choice) {
  Solution solution = solve(problem);
  CHECK(solution.cost == cost);
  CHECK(solution.choice == choice);
  CHECK(solution.optimal);
}

TEST_CASE("the toy problem has its published optimum") { check(toy(), 7650, {0, 0, 0, 0, 0}); }

TEST_CASE("forbidden strategies are avoided") {
  Problem problem = toy();
  for (int p = 0; p < 3; ++p) problem.nodes[0].costs[p] = kInfinite;
  check(problem, 10'683, {3, 0, 0, 0, 0});
}

TEST_CASE("forbidden pairs are avoided") {
  Problem problem = toy();
  Costs costs = *problem.edges[0].costs;
  costs[0] = kInfinite;
  problem.edges[0].costs = table(costs);
  check(problem, 7872, {0, 0, 1, 1, 0});
}

TEST_CASE("a further edge is paid") {
  Problem problem = toy();
  problem.edges.push_back({1, 3, problem.edges[1].costs});
  check(problem, 12'650, {0, 0, 0, 0, 0});
}

TEST_CASE("an edge between nodes that must agree is paid on its diagonal") {
  Problem problem = toy();
  problem.edges.push_back({2, 3, agreement({9000, 6100, 7200, 8300})});
  check(problem, 13'972, {0, 0, 1, 1, 0});
}

TEST_CASE("the smallest feasible limit is feasible and one less says so") {
  Problem problem = toy();
  problem.usage_limit = 1'000'000;
  check(problem, 7650, {0, 0, 0, 0, 0});
  problem.usage_limit = 999'999;
  try {
    solve(problem);
    FAIL("solved below the smallest feasible limit");
  } catch (const Infeasible& error) {
    CHECK(error.missing_usage == 1);
    CHECK(error.time == 3);
    CHECK(std::string(error.what()) ==
          "no choice keeps the usage limit 999999: the least possible peak is 1000000, at time 3; "
          "raise the limit by 1 or allow strategies that use less");
  }
}

}  // namespace
}  // namespace alpa::ilp::toy_test
