// Costs that several readers share: bounds and choices against enumeration.
#include <doctest/doctest.h>

#include "random_problem.h"
#include "src/ilp/solve.h"
#include "support/error_text.h"

namespace alpa::ilp::shared_test {
namespace {

using testing::draw_sharing_problem;
using testing::enumerate;

/// Neither elimination nor branching: what splitting prices proves and finds by itself.
Options splitting_alone() {
  Options options;
  options.methods.presolve.elimination = options.methods.presolve.degree_one =
      options.methods.presolve.degree_two = false;
  options.methods.presolve.merge = options.methods.presolve.dominance = false;
  options.methods.use_cbc = options.methods.large_neighbourhood_search = false;
  return options;
}

TEST_CASE(
    "the bound is at most the optimum and the choice at least, on 3000 problems that share costs") {
  int solved = 0, proven = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const Problem problem = draw_sharing_problem(seed, 6);
    const std::optional<std::int64_t> expected = enumerate(problem).cost;
    if (!expected) continue;
    INFO("seed " << seed);
    const Solution solution = solve(problem, splitting_alone());
    CHECK(solution.lower_bound <= *expected);
    CHECK(solution.cost >= *expected);
    CHECK(solution.cost == evaluate(problem, solution.choice).cost);
    ++solved;
    proven += solution.optimal;
  }
  CHECK(solved > 1000);
  CHECK(proven > solved * 8 / 10);  // splits that were never moved prove far fewer
}

TEST_CASE("problems that share costs are solved to the optimum") {
  int solved = 0;
  const auto check = [&](std::uint64_t seed, const Options& options) {
    const Problem problem = draw_sharing_problem(seed, 6);
    const std::optional<std::int64_t> expected = enumerate(problem).cost;
    INFO("seed " << seed);
    if (!expected) {
      CHECK_THROWS_AS(solve(problem, options), Infeasible);
      return;
    }
    const Solution solution = solve(problem, options);
    CHECK(solution.cost == *expected);
    CHECK(solution.optimal);
    ++solved;
  };
  Options without_elimination;
  without_elimination.methods.presolve.elimination = false;
  Options integer_program_alone;
  integer_program_alone.methods.presolve = {false, false, false, false, false, false, false, false};
  for (std::uint64_t seed = 10'000; seed < 12'000; ++seed) check(seed, {});
  for (std::uint64_t seed = 20'000; seed < 20'500; ++seed) check(seed, without_elimination);
  for (std::uint64_t seed = 30'000; seed < 30'300; ++seed) check(seed, integer_program_alone);
  CHECK(solved > 1000);
}

TEST_CASE("a copy that two readers want is paid once") {
  Problem problem;
  problem.nodes = {{{0, 5}, {}}, {{0, 9}, {}}, {{0, 9}, {}}};
  problem.shared = {{{0, {0, 1}}, {{1, {0, 1}}, {2, {0, 1}}}, 2, 2, table({4, 0, 0, 4})}};
  CHECK(evaluate(problem, {0, 0, 0}).cost == 4);
  CHECK(evaluate(problem, {1, 0, 1}).cost == 5 + 0 + 9 + 4);
  CHECK(solve(problem).cost == 4);
}

TEST_CASE("malformed shared costs are refused") {
  const auto refused = [](const SharedCost& shared) {
    Problem problem;
    problem.nodes = {{{0, 0}, {}}, {{0, 0}, {}}};
    problem.shared = {shared};
    return alpa::testing::error_of([&] { validate(problem); });
  };
  const SharedEnd source{0, {0, 1}}, reader{1, {0, 1}};
  CHECK(refused({source, {reader}, 2, 2, table({0, 1, 1, 0})}) == "no error");
  CHECK(refused({source, {{2, {0, 1}}}, 2, 2, table({0, 1, 1, 0})}) ==
        "shared cost 0 has an end at node 2 but there are 2 nodes; use indices from 0 to 1");
  CHECK(refused({source, {{1, {0}}}, 2, 2, table({0, 1, 1, 0})}) ==
        "shared cost 0 gives 1 classes to node 1, which has 2 strategies; give one per strategy");
  CHECK(refused({source, {{1, {0, 2}}}, 2, 2, table({0, 1, 1, 0})}) ==
        "shared cost 0 gives node 1 the class 2; use 0 to 1");
  CHECK(refused({source, {{0, {0, 1}}}, 2, 2, table({0, 1, 1, 0})}) ==
        "shared cost 0 has a reader at its source, node 0; give the cost to the node itself");
  CHECK(refused({source, {reader}, 2, 2, table({0, 1, 1})}) ==
        "shared cost 0 has 3 costs but 2 rows and 2 columns; give one cost per row and column");
  CHECK(refused({source, {reader}, 2, 2, table({0, -1, 1, 0})}) ==
        "shared cost 0 has a negative cost; give costs of 0 or more");
}

}  // namespace
}  // namespace alpa::ilp::shared_test
