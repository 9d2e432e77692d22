#include <doctest/doctest.h>

#include "random_problem.h"
#include "src/ilp/solve.h"

namespace alpa::ilp::brute_force_test {
namespace {

using testing::draw_problem;
using testing::enumerate;

constexpr Presolve kNone = {false, false, false, false, false, false, false, false};

/// Solves and compares with enumeration; counts the problems that had a choice.
void check(std::uint64_t seed, int nodes, const Options& options, int& solved) {
  Problem problem = draw_problem(seed, nodes);
  testing::Enumerated expected = enumerate(problem);
  INFO("seed " << seed);
  if (!expected.cost) {
    try {
      solve(problem, options);
      FAIL("a choice was found where there is none");
    } catch (const Infeasible& error) {
      std::int64_t missing = expected.least_peak ? *expected.least_peak - *problem.usage_limit : 0;
      CHECK(error.missing_usage == missing);
    }
    return;
  }
  Solution solution = solve(problem, options);
  CHECK(solution.cost == *expected.cost);
  CHECK(solution.lower_bound == *expected.cost);
  CHECK(solution.optimal);
  CHECK(evaluate(problem, solution.choice).feasible);
  ++solved;
}

void check_many(std::uint64_t first, int count, int nodes, const Options& options) {
  int solved = 0;
  for (int i = 0; i < count; ++i)
    check(first + static_cast<std::uint64_t>(i), nodes, options, solved);
  CHECK(solved > count / 3);
}

Options with(bool Presolve::*one) {
  Options options;
  options.methods.presolve = kNone;
  options.methods.presolve.*one = true;
  return options;
}

TEST_CASE("all reductions together keep the optimum of 6000 random problems") {
  check_many(1, 6000, 6, {});
}

TEST_CASE("all reductions together keep the optimum of problems with eight nodes") {
  check_many(50'000, 200, 8, {});
}

TEST_CASE("each reduction alone keeps the optimum") {
  check_many(100'000, 500, 5, with(&Presolve::arc_consistency));
  check_many(110'000, 500, 5, with(&Presolve::projection));
  check_many(120'000, 500, 5, with(&Presolve::merge));
  check_many(130'000, 500, 5, with(&Presolve::dominance));
  check_many(140'000, 500, 5, with(&Presolve::degree_one));
  check_many(150'000, 500, 5, with(&Presolve::degree_two));
  check_many(160'000, 500, 5, with(&Presolve::rows));
  check_many(170'000, 500, 5, with(&Presolve::elimination));
}

TEST_CASE("the integer program alone finds the optimum") {
  Options options;
  options.methods.presolve = kNone;
  check_many(180'000, 500, 5, options);
}

}  // namespace
}  // namespace alpa::ilp::brute_force_test
