// Bounds on a boundary's table hold for every cell, meet where cells are visited, and know what
// neighbours pay; tables of problems with shared costs are exact.
#include "src/ilp/search/boundary_bounds.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "boundary_enumeration.h"
#include "random_problem.h"
#include "src/ilp/model/boundary_table.h"

namespace boundary_bounds_test {

using namespace alpa;
using namespace alpa::ilp;
using ilp::testing::Draw, ilp::testing::draw_end, ilp::testing::least_by_boundary;

namespace {

constexpr int kNodes = 6, kStates = 3;
const std::vector<int> kBoundary = {0, kNodes - 1};
using Costs = std::vector<std::int64_t>;

/// A chain between the two nodes of the boundary, an edge across, and a cost that three nodes
/// share.
Problem draw_part(Draw& draw) {
  Problem problem;
  for (int n = 0; n < kNodes; ++n) {
    problem.nodes.push_back({{}, {}});
    for (int s = 0; s < kStates; ++s) problem.nodes.back().costs.push_back(draw.below(50));
  }
  const auto costs = [&](bool forbids) {
    std::vector<std::int64_t> result;
    for (int c = 0; c < kStates * kStates; ++c)
      result.push_back(forbids && draw.below(8) == 0 ? kInfinite : draw.below(60));
    return table(std::move(result));
  };
  for (int n = 1; n < kNodes; ++n) problem.edges.push_back({n - 1, n, costs(true)});
  problem.edges.push_back({1, 3, costs(true)});
  SharedCost shared{draw_end(draw, problem, 1, kStates), {}, kStates, kStates, costs(false)};
  for (int reader : {2, 3, 4}) shared.readers.push_back(draw_end(draw, problem, reader, kStates));
  problem.shared.push_back(std::move(shared));
  return problem;
}

/// Calls `check` with parts and their least costs by choice of the boundary.
template <class Check>
void for_each_part(std::uint64_t seed, int parts, const Check& check) {
  Draw draw{std::mt19937_64(seed)};
  for (int part = 0; part < parts; ++part) {
    CAPTURE(part);
    const Problem problem = draw_part(draw);
    check(problem, least_by_boundary(problem, kBoundary), draw);
  }
}

std::vector<Table> flat_moves() {
  return std::vector<Table>(2, table(std::vector<std::int64_t>(kStates * kStates, 40)));
}

void check_below(const Costs& lower, const Costs& least) {
  REQUIRE(lower.size() == least.size());
  for (std::size_t c = 0; c < lower.size(); ++c) CHECK(lower[c] <= least[c]);
}

/// Least cost of so many parts in a row, the end of one being the beginning of the next.
std::int64_t row_cost(const Costs& part, int parts) {
  std::vector<std::int64_t> costs(kStates, 0);
  for (int k = 0; k < parts; ++k) {
    std::vector<std::int64_t> next(kStates, kInfinite);
    for (int p = 0; p < kStates; ++p)
      for (int q = 0; q < kStates; ++q)
        if (part[p * kStates + q] < kInfinite)
          next[q] = std::min(next[q], costs[p] + part[p * kStates + q]);
    costs = next;
  }
  return *std::min_element(costs.begin(), costs.end());
}

}  // namespace

TEST_CASE("tables of problems with shared costs are exact, and so are their choices") {
  for_each_part(3, 200, [&](const Problem& problem, const Costs& least, Draw&) {
    const auto result = std::get<BoundaryTable>(eliminate_to(problem, kBoundary, 1 << 16));
    REQUIRE(result.costs == least);
    for (int p = 0; p < kStates; ++p)
      for (int q = 0; q < kStates; ++q)
        if (const std::vector<int> at = {p, q}; least[place_of(result.sizes, at)] < kInfinite) {
          const std::vector<int> choice = result.choice(at);
          CHECK(choice.front() == p);
          CHECK(choice.back() == q);
          CHECK(evaluate(problem, choice).cost == least[place_of(result.sizes, at)]);
        }
  });
}

TEST_CASE("bounds of all cells hold from the start, and visited cells meet their least cost") {
  int raised = 0;
  for_each_part(5, 200, [&](const Problem& problem, const Costs& least, Draw&) {
    BoundaryBounds bounds(problem, kBoundary, flat_moves());
    check_below(bounds.lower(), least);
    const Costs before = bounds.lower();
    while (!bounds.visit(0).final) check_below(bounds.lower(), least);
    check_below(bounds.lower(), least);
    for (std::size_t cell = 1; cell < least.size(); ++cell)
      raised += bounds.lower()[cell] > before[cell];
    for (std::size_t cell = 0; cell < least.size(); ++cell) {
      while (!bounds.visit(cell).final) continue;
      const BoundaryBounds::Cell& known = bounds.known().at(cell);
      CHECK(known.upper == least[cell]);
      CHECK(bounds.lower()[cell] == least[cell]);
      if (known.upper == kInfinite) continue;
      CHECK(evaluate(problem, known.choice).cost == known.upper);
      CHECK(static_cast<std::size_t>(known.choice.front() * kStates + known.choice.back()) == cell);
    }
  });
  CHECK(raised > 40);  // a visited cell says something of others
}

TEST_CASE("bounds under prices are as high as the dual bound for those who pay them") {
  int tight = 0;
  for_each_part(11, 100, [&](const Problem& problem, const Costs& least, Draw& draw) {
    BoundaryPrices prices(2);
    for (std::vector<std::int64_t>& side : prices)
      for (int s = 0; s < kStates; ++s) side.push_back(draw.below(100));
    BoundaryBounds bounds(problem, kBoundary, flat_moves());
    bounds.bound(prices);
    check_below(bounds.lower(), least);
    const auto paid = [&](const Costs& costs) {
      std::int64_t result = kInfinite;
      for (std::size_t c = 0; c < costs.size(); ++c)
        result = std::min(result, costs[c] + prices[0][c / kStates] + prices[1][c % kStates]);
      return result;
    };
    tight += paid(bounds.lower()) == paid(least);
  });
  CHECK(tight > 50);
}

TEST_CASE("bounds of repeated parts give what a long row costs per part") {
  int tight = 0;
  for_each_part(13, 100, [&](const Problem& problem, const Costs& least, Draw&) {
    BoundaryBounds bounds(problem, kBoundary, flat_moves());
    const BoundaryBounds::Tie tie{1, 0, {0, 1, 2}};
    bounds.bound_repeated({&tie, 1});
    check_below(bounds.lower(), least);
    const auto per_part = [](const Costs& part) { return row_cost(part, 44) - row_cost(part, 32); };
    tight += per_part(bounds.lower()) == per_part(least);
  });
  CHECK(tight > 50);
}

TEST_CASE("a problem with a usage limit has no bounds by cell") {
  Problem problem;
  problem.nodes = {{{1, 2}, {}}};
  problem.usage_limit = 3;
  const std::vector<int> boundary = {0};
  CHECK_THROWS_WITH_AS(BoundaryBounds(problem, boundary, flat_moves()),
                       "BoundaryBounds: the problem has a usage limit, which no table can hold",
                       Error);
}

}  // namespace boundary_bounds_test
