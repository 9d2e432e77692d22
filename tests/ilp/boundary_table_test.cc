// A table over a boundary has the least cost of every entry, and the choices that make it.
#include "src/ilp/model/boundary_table.h"

#include <doctest/doctest.h>

#include <random>

#include "alpa/base/error.h"
#include "boundary_enumeration.h"

namespace boundary_table_test {

using namespace alpa;
using namespace alpa::ilp;
using ilp::testing::joint_cost, ilp::testing::least_by_boundary;

namespace {

/// Nodes of one to three strategies, a chain with some more edges, a few forbidden entries.
Problem random_parts(std::mt19937& random, int nodes) {
  const auto number = [&](int below) { return static_cast<std::int64_t>(random() % below); };
  Problem problem;
  for (int n = 0; n < nodes; ++n) {
    Node node;
    for (std::int64_t s = 0; s <= number(3); ++s) node.costs.push_back(number(50));
    problem.nodes.push_back(std::move(node));
  }
  const auto connect = [&](int a, int b) {
    std::vector<std::int64_t> costs;
    for (std::size_t c = 0; c < problem.nodes[a].costs.size() * problem.nodes[b].costs.size(); ++c)
      costs.push_back(number(6) == 0 ? kInfinite : number(50) - 10);
    problem.edges.push_back({a, b, table(std::move(costs))});
  };
  for (int n = 1; n < nodes; ++n) {
    if (number(8) > 0) connect(n, n - 1);
    if (n > 2 && number(2) == 0) connect(static_cast<int>(number(n - 1)), n);
  }
  return problem;
}

}  // namespace

TEST_CASE("every entry of a boundary's table is the least cost, and its choice costs that") {
  std::mt19937 random(7);
  int entries = 0, forbidden = 0;
  for (int round = 0; round < 200; ++round) {
    const Problem problem = random_parts(random, 3 + round % 6);
    std::vector<int> boundary;
    for (int n = 0; n < static_cast<int>(problem.nodes.size()); ++n)
      if (random() % 3 == 0) boundary.push_back(n);
    std::vector<JointCosts> joint;
    if (round % 2 == 0) {
      std::vector<std::int64_t> costs;
      const std::vector<int> nodes = {2, 0, 1};
      for (std::size_t c = 0; c < problem.nodes[0].costs.size() * problem.nodes[1].costs.size() *
                                      problem.nodes[2].costs.size();
           ++c)
        costs.push_back(random() % 5 == 0 ? kInfinite : static_cast<std::int64_t>(random() % 40));
      joint.push_back({nodes, table(std::move(costs))});
    }
    const auto result = std::get<BoundaryTable>(eliminate_to(problem, boundary, 1 << 16, joint));
    const std::vector<std::int64_t> expected = least_by_boundary(problem, boundary, joint);
    REQUIRE(result.costs == expected);
    std::vector<int> at(boundary.size(), 0);
    for (std::size_t entry = 0; entry < expected.size(); ++entry) {
      std::size_t rest = entry;
      for (std::size_t b = boundary.size(); b-- > 0; rest /= result.sizes[b])
        at[b] = static_cast<int>(rest % result.sizes[b]);
      CHECK(place_of(result.sizes, at) == entry);
      ++entries;
      if (expected[entry] == kInfinite) {
        ++forbidden;
        continue;
      }
      const std::vector<int> choice = result.choice(at);
      std::int64_t cost = evaluate(problem, choice).cost;
      for (const JointCosts& j : joint) cost += joint_cost(j, problem, choice);
      CHECK(cost == expected[entry]);
      for (std::size_t b = 0; b < boundary.size(); ++b) CHECK(choice[boundary[b]] == at[b]);
    }
  }
  CHECK(entries > 500);
  CHECK(forbidden > 20);
}

TEST_CASE("a table that would be too large is not built, and says how large") {
  std::mt19937 random(1);
  Problem problem;
  for (int n = 0; n < 6; ++n) problem.nodes.push_back({std::vector<std::int64_t>(10, 0), {}});
  for (int a = 0; a < 6; ++a)
    for (int b = 0; b < a; ++b) {
      std::vector<std::int64_t> costs(100);
      for (std::int64_t& cost : costs) cost = static_cast<std::int64_t>(random() % 9);
      problem.edges.push_back({a, b, table(std::move(costs))});
    }
  const std::vector<int> ends = {0, 5};
  CHECK(std::get<TableTooLarge>(eliminate_to(problem, ends, 1000)).cells == 100'000);
  CHECK(std::get<TableTooLarge>(eliminate_to(problem, ends, 99)).cells == 100);
  CHECK(std::get<BoundaryTable>(eliminate_to(problem, ends, 100'000)).costs.size() == 100);
}

TEST_CASE("a usage limit cannot be eliminated") {
  Problem problem;
  problem.nodes.push_back({{1, 2}, {}});
  problem.usage_limit = 5;
  CHECK_THROWS_WITH_AS(eliminate_to(problem, {}, 10),
                       "eliminate_to: the problem has a usage limit, which no table can hold",
                       Error);
}

}  // namespace boundary_table_test
