/// A deadline is a deadline, and every descent descends.
#include <doctest/doctest.h>

#include <cmath>
#include <ctime>

#include "../../src/ilp/search/dive.h"
#include "../../src/ilp/search/local_search.h"
#include "deadline_check.h"
#include "large_problem.h"
#include "src/ilp/solve.h"
#include "support/error_text.h"
#include "support/nightly.h"

namespace alpa::ilp::deadline_test {
namespace {

using testing::large_problem;
using testing::seconds_beyond;

/// A hub that may be 1 only if no neighbour is 0: from all 0, that is forbidden by every edge.
Problem hub(int neighbours) {
  Problem problem;
  problem.nodes.push_back({{5, 0}, {}});
  const Table together = table({0, 0, kInfinite, 0});
  for (int i = 1; i <= neighbours; ++i) {
    problem.nodes.push_back({{0, 10}, {}});
    problem.edges.push_back({0, i, together});
  }
  return problem;
}

/// Only what needs no reduction: a first choice and small moves.
Options small_moves() {
  Options options;
  options.methods.presolve = {true, false, false, false, false, false, false, false};
  options.methods.use_cbc = options.methods.large_neighbourhood_search = false;
  options.methods.dual_sweeps = 0;
  return options;
}

TEST_CASE("small moves never take a strategy that many edges forbid") {
  for (int neighbours : {1, 50, 92, 93, 100, 150, 184, 200, 1000}) {
    CAPTURE(neighbours);
    Options options = small_moves();
    options.limits.seconds = 2;
    const Solution solution = solve(hub(neighbours), options);
    CHECK(solution.cost == std::min(5, 10 * neighbours));
  }
}

TEST_CASE("a choice to be improved must be allowed: anything else is a bug of the caller") {
  const Model model = build(hub(3), true, Deadline(60));
  std::vector<int> choice = {1, 0, 1, 1};
  CHECK_THROWS_WITH_AS(improve(model, choice, Deadline(60)), "a choice to be improved is forbidden",
                       Bug);
}

TEST_CASE("small moves and repairs end at the deadline") {
  const testing::Large large = large_problem(3, 3, 2);
  const Model model = build(large.problem, true, Deadline(60));
  const std::vector<int> first = first_choice(model, 40, Deadline(60));
  REQUIRE(!first.empty());
  std::vector<int> choice = first;
  improve(model, choice, Deadline(0));
  CHECK(choice == first);
  improve(model, choice, Deadline(60));
  CHECK(price(model, choice) < price(model, first));
  std::vector<int> exceeding(model.nodes.size(), 0);
  REQUIRE(!fits(model, exceeding));
  CHECK(!repair(model, exceeding, 1 << 20, Deadline(0)));
  CHECK(exceeding == std::vector<int>(model.nodes.size(), 0));
}

TEST_CASE("large problems of all kinds are answered within their limit and a second") {
  for (int number = 0; number < testing::kKinds; ++number)
    for (double limit : {0.01 + 0.02 * number}) {
      const testing::Large large = large_problem(700 + number, number, 25);
      CAPTURE(large.kind);
      CAPTURE(limit);
      CHECK(seconds_beyond(large.problem, limit) < 1);
    }
}

TEST_CASE("no message asks for seconds that were not used") {
  // Every pair of nodes excludes much: nothing finds a choice, and nothing
  // proves that there is none.
  testing::Draw draw{std::mt19937_64(5)};
  Problem problem;
  problem.nodes.assign(60, {std::vector<std::int64_t>(12, 0), {}});
  for (int a = 0; a < 60; ++a)
    for (int b = a + 1; b < 60; ++b)
      problem.edges.push_back({a, b, table(testing::large_costs(draw, 144, 10))});
  Options options;
  options.limits.seconds = 0.8;
  const double before = testing::wall_seconds();
  const std::string message = alpa::testing::error_of([&] { solve(problem, options); });
  CHECK(testing::wall_seconds() - before >= 0.8);
  CHECK(message.starts_with("no feasible choice was found in "));
  CHECK(message.ends_with(" s; allow more seconds"));
}

TEST_CASE(
    "under a work limit the answer is the same however fast the machine is, and more work is no "
    "worse") {
  int improved = 0;
  for (int number = 0; number < testing::kKinds; ++number) {
    const testing::Large large = large_problem(720 + number, number, 3);
    CAPTURE(large.kind);
    std::int64_t cost = kInfinite;
    for (std::int64_t work : {10'000'000, 40'000'000}) {
      Options options;
      options.limits.work = work;
      try {
        const Solution once = solve(large.problem, options), twice = solve(large.problem, options);
        CHECK(once.choice == twice.choice);
        CHECK(once.lower_bound == twice.lower_bound);
        improved += once.cost < cost;
        cost = once.cost;
      } catch (const Infeasible&) {
      } catch (const TimedOut& timed_out) {
        CHECK(timed_out.what() ==
              fmt::format("no feasible choice was found in a work of {} cells; allow more", work));
      }
    }
  }
  CHECK(improved >= testing::kKinds);
}

TEST_CASE(
    "with limits of 0.01 to 5 seconds no large random problem is answered more than a second "
    "late" *
    doctest::skip(!alpa::testing::is_nightly())) {
  testing::Draw draw{std::mt19937_64(20'26)};
  for (int number = 0; number < 20 * testing::kKinds; ++number) {
    const double limit = 0.01 * std::pow(500, draw.below(1001) / 1000.0);
    const testing::Large large = testing::large_problem(9000 + number, number, draw.between(1, 60));
    CAPTURE(number);
    CAPTURE(large.kind);
    CAPTURE(limit);
    CHECK(testing::seconds_beyond(large.problem, limit) < 1);
  }
}

}  // namespace
}  // namespace alpa::ilp::deadline_test
