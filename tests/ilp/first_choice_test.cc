/// First choices where they are hard to find.
#include <doctest/doctest.h>

#include "../../src/ilp/search/dive.h"
#include "large_problem.h"
#include "src/ilp/solve.h"

namespace alpa::ilp::first_choice_test {
namespace {

/// Random pairs of nodes exclude `forbidden_percent` of their combinations, but
/// never the drawn choice's.
Problem planted(std::uint64_t seed, int nodes, int strategies, int edges, int forbidden_percent) {
  testing::Draw draw{std::mt19937_64(seed)};
  Problem problem;
  std::vector<int> choice;
  for (int i = 0; i < nodes; ++i) {
    problem.nodes.push_back({testing::large_costs(draw, strategies, 0), {}});
    choice.push_back(draw.below(strategies));
  }
  for (int e = 0; e < edges; ++e) {
    const int a = draw.below(nodes), b = draw.below(nodes);
    std::vector<std::int64_t> costs =
        testing::large_costs(draw, strategies * strategies, forbidden_percent);
    costs[choice[a] * strategies + choice[b]] = 99'999;
    problem.edges.push_back({a, b, table(std::move(costs))});
  }
  return problem;
}

TEST_CASE("where most first choices end in contradictions, one is found all the same") {
  for (std::uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    Options options;
    options.limits.relative_gap = 1e9;  // the first choice will do
    CHECK(solve(planted(seed, 300, 6, 1200, 30), options).cost < kInfinite);
  }
}

TEST_CASE("first choices keep the rows, repaired or with the rows kept on the way") {
  for (int number : {3, 4, 10, 11}) {
    const testing::Large large = testing::large_problem(1000 + number, number, 5);
    CAPTURE(large.kind);
    const Model model = build(large.problem, true, Deadline(60));
    const std::vector<int> choice = first_choice(model, 40, Deadline(60));
    REQUIRE(!choice.empty());
    CHECK(price(model, choice) < kNever);
    CHECK(fits(model, choice));
  }
}

TEST_CASE("where no choice keeps the rows, the dives that keep them prove it") {
  int proven = 0;
  for (std::uint64_t seed = 700'000; seed < 702'000; ++seed) {
    const Problem problem = testing::draw_problem(seed, 5);
    CAPTURE(seed);
    const bool exists = testing::enumerate(problem).cost.has_value();
    try {
      const Model model = build(problem, true, Deadline(60));
      const std::vector<int> choice = first_choice(model, 10, Deadline(60));
      CHECK(exists);
      REQUIRE(!choice.empty());
      CHECK(fits(model, choice));
    } catch (const Contradiction&) {
      CHECK(!exists);
      ++proven;
    }
  }
  CHECK(proven > 300);
}

}  // namespace
}  // namespace alpa::ilp::first_choice_test
