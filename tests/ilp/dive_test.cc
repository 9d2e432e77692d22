/// First choices, found without a bound.
#include <doctest/doctest.h>

#include "../../src/ilp/search/dive.h"
#include "random_problem.h"
#include "src/ilp/solve.h"
#include "training_graph.h"

namespace alpa::ilp::dive_test {
namespace {

/// Whether diving finds an allowed choice of the problem without its limit.
bool finds_choice(const Problem& problem) {
  try {
    const Model model = build(problem, true, Deadline(60));
    const auto choice = Diver(model).dive({.conflicts = 1 << 20}, Deadline(60));
    return choice && price(model, *choice) < kNever;
  } catch (const Contradiction&) {
    return false;
  }
}

TEST_CASE(
    "with steps taken back without end, diving finds an allowed choice exactly where there is "
    "one") {
  int allowed = 0, forbidden = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Problem problem = testing::draw_problem(seed, 6);
    problem.usage_limit.reset();
    const bool exists = testing::enumerate(problem).cost.has_value();
    CAPTURE(seed);
    CHECK(finds_choice(problem) == exists);
    ++(exists ? allowed : forbidden);
  }
  CHECK(allowed > 500);
  CHECK(forbidden > 100);
}

TEST_CASE(
    "no steps may be taken back: of two values that exclude each other the wrong one ends the "
    "dive") {
  // Pairs of 3 nodes on a cycle must differ, of two strategies each:
  // impossible, seen after one step.
  const Table differ = table({kInfinite, 0, 0, kInfinite});
  Problem problem;
  problem.nodes.assign(3, {{0, 0}, {}});
  problem.edges = {{0, 1, differ}, {1, 2, differ}, {0, 2, differ}};
  const Model model = build(problem, true, Deadline(60));
  CHECK(!Diver(model).dive({.conflicts = 1}, Deadline(60)));
  CHECK(!Diver(model).dive({.conflicts = 100}, Deadline(60)));
}

TEST_CASE("a training graph has a choice however short the time") {
  const Problem problem = testing::training_graph(96, true, 0);
  Options hurried;
  hurried.limits.seconds = 1e-6;
  const Solution solution = solve(problem, hurried);
  CHECK(evaluate(problem, solution.choice).feasible);
  CHECK(solution.lower_bound <= solution.cost);
}

}  // namespace
}  // namespace alpa::ilp::dive_test
