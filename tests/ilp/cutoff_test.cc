/// Solves that end once nothing cheaper than a cutoff can exist, and what they report on the way.
#include <doctest/doctest.h>

#include "hard_problem.h"
#include "random_problem.h"
#include "src/ilp/solve.h"
#include "support/error_text.h"

namespace alpa::ilp::cutoff_test {
namespace {

using testing::draw_problem;
using testing::enumerate;

/// The proven bound of a solve that may end without a choice; kInfinite: there is none.
std::int64_t bound_of(const Problem& problem, const Options& options) {
  try {
    const Solution solution = solve(problem, options);
    CHECK(evaluate(problem, solution.choice).feasible);
    return solution.lower_bound;
  } catch (const TimedOut& end) {
    return end.lower_bound;
  } catch (const Infeasible&) {
    return kInfinite;
  }
}

Options without_elimination() {
  Options options;
  options.methods.presolve = Presolve{true, false, false, false, false, false, false, false};
  return options;
}

TEST_CASE("a cutoff keeps every cheaper choice, and a bound that reaches it is proven") {
  int above = 0, below = 0;
  for (std::uint64_t seed = 700'000; seed < 700'400; ++seed) {
    const Problem problem = draw_problem(seed, 6);
    const std::optional<std::int64_t> best = enumerate(problem).cost;
    CAPTURE(seed);
    for (Options options : {Options{}, without_elimination()}) {
      for (std::int64_t margin : {-5, 0, 1, 7}) {
        options.limits.cutoff = best.value_or(0) + margin;
        if (best && margin > 0) {
          CHECK(solve(problem, options).cost == *best);
          ++above;
        } else {
          const std::int64_t bound = bound_of(problem, options);
          CHECK(bound >= options.limits.cutoff);
          CHECK(bound <= best.value_or(kInfinite));
          ++below;
        }
      }
    }
  }
  CHECK(above > 500);
  CHECK(below > 500);
}

TEST_CASE("a solve ends when the bound reaches the cutoff, not when its work is used up") {
  const Problem problem = testing::hard_problem(40);
  Options options;
  options.methods.use_cbc = false;
  options.limits.work = 200'000'000;
  std::vector<std::int64_t> bounds;
  options.progress = [&](std::int64_t, std::int64_t bound) { bounds.push_back(bound); };
  const Solution all = solve(problem, options);
  REQUIRE(!all.optimal);
  REQUIRE(bounds.front() < bounds.back());
  options.limits.cutoff = (bounds.front() + bounds.back()) / 2;  // not reached at once
  const Solution cut = solve(problem, options);                  // its seconds are work, too
  CHECK(cut.seconds < all.seconds / 2);
  CHECK(cut.lower_bound >= options.limits.cutoff);
  CHECK(evaluate(problem, cut.choice).feasible);
}

TEST_CASE("a solve without a choice names the cutoff that ended it") {
  const Problem problem{{{{3, 5}, {{0, 1, {2, 0}}}}, {{4, 9}, {{0, 1, {2, 0}}}}}, {}, 3};
  Options options = without_elimination();
  options.limits.cutoff = 7;  // both at their cheapest, which exceeds the usage limit
  CHECK(alpa::testing::error_of([&] { solve(problem, options); }) ==
        "no choice costs less than the cutoff 7; raise it");
}

TEST_CASE("progress never gets worse, keeps to the optimum, and ends with the solution") {
  for (std::uint64_t seed = 701'000; seed < 701'100; ++seed) {
    const Problem problem = draw_problem(seed, 8);
    const std::optional<std::int64_t> best = enumerate(problem).cost;
    if (!best) continue;
    CAPTURE(seed);
    Options options = without_elimination();
    std::int64_t cost = kInfinite, bound = -kInfinite;
    options.progress = [&](std::int64_t new_cost, std::int64_t new_bound) {
      CHECK(new_cost <= cost);
      CHECK(new_bound >= bound);
      CHECK((new_cost < cost || new_bound > bound));
      cost = new_cost, bound = new_bound;
      CHECK(cost >= *best);
      CHECK(bound <= *best);
    };
    const Solution solution = solve(problem, options);
    CHECK(cost == solution.cost);
    CHECK(bound == solution.lower_bound);
  }
}

}  // namespace
}  // namespace alpa::ilp::cutoff_test
