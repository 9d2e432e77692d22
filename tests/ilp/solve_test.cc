#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "random_problem.h"
#include "src/ilp/solve.h"
#include "training_graph.h"

namespace alpa::ilp::solve_test {
namespace {

using testing::draw_problem;
using testing::enumerate;
using testing::training_graph;

std::string message(const Problem& problem) {
  try {
    solve(problem);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("without branching the optimum lies between bound and cost") {
  Options options;
  options.methods.use_cbc = options.methods.large_neighbourhood_search =
      options.methods.presolve.elimination = false;
  options.methods.presolve.degree_one = options.methods.presolve.degree_two =
      options.methods.presolve.dominance = false;
  options.methods.dual_sweeps = 30;
  int solved = 0, open = 0;
  for (std::uint64_t seed = 200'000; seed < 201'500; ++seed) {
    Problem problem = draw_problem(seed, 6);
    testing::Enumerated expected = enumerate(problem);
    if (!expected.cost) continue;
    INFO("seed " << seed);
    try {
      Solution solution = solve(problem, options);
      CHECK(solution.lower_bound <= *expected.cost);
      CHECK(solution.cost >= *expected.cost);
      ++solved;
      open += !solution.optimal;
    } catch (const TimedOut&) {  // rounding may find nothing
    }
  }
  CHECK(solved > 700);
  CHECK(open > 0);  // otherwise this proves nothing about bounds
}

TEST_CASE("the dual bound with fixing, and branching behind it, keep the optimum") {
  Options options;
  options.methods.presolve.elimination = options.methods.presolve.degree_one =
      options.methods.presolve.degree_two = false;
  options.methods.dual_sweeps = 10;
  for (std::uint64_t seed = 300'000; seed < 301'000; ++seed) {
    Problem problem = draw_problem(seed, 6);
    testing::Enumerated expected = enumerate(problem);
    if (!expected.cost) continue;
    INFO("seed " << seed);
    CHECK(solve(problem, options).cost == *expected.cost);
  }
}

TEST_CASE("a problem without nodes has the empty choice") {
  Solution solution = solve({});
  CHECK(solution.choice.empty());
  CHECK(solution.cost == 0);
  CHECK(solution.optimal);
}

TEST_CASE("malformed problems are refused") {
  Problem problem;
  problem.nodes = {{{1, 2}, {}}, {{}, {}}};
  CHECK(message(problem) == "node 1 has no strategies; every node needs at least one");
  problem.nodes[1].costs = {5};
  problem.nodes[1].usages = {{0, 1, {1, 2}}};
  CHECK(message(problem) ==
        "node 1 has 1 strategies but a usage with 2 amounts; give one amount per strategy");
  problem.nodes[1].usages = {{0, 1, {-4}}};
  CHECK(message(problem) == "node 1 has the usage -4; usages must be in [0, 10^18)");
  problem.nodes[1].usages.clear();
  problem.edges = {{0, 2, table({1, 2})}};
  CHECK(message(problem) ==
        "edge 0 joins nodes 0 and 2 but there are 2 nodes; use indices from 0 to 1");
  problem.edges = {{0, 1, table({1, 2, 3})}};
  CHECK(message(problem) ==
        "edge 0 has 3 costs but its nodes 0 and 1 have 2 x 1 strategies; give 2 costs, row by row");
  problem.edges = {{0, 1, nullptr}};
  CHECK(message(problem) == "edge 0 has no cost table; give one cost per pair of strategies");
  problem.edges = {{0, 1, table({kInfinite - 1, kInfinite - 1})}};
  CHECK(message(problem) ==
        "the largest finite costs sum to 1e+18 but must stay below 10^18; use a larger unit");
}

TEST_CASE("a negative usage limit is missed by every choice, even of nodes that use nothing") {
  Problem problem;
  problem.nodes = {{{1, 2}, {}}};
  problem.usage_limit = -3;
  CHECK(message(problem) ==
        "no choice keeps the usage limit -3: the least possible peak is 0, at time 0; "
        "raise the limit by 3 or allow strategies that use less");
  problem.nodes[0].usages = {{4, 6, {5, 7}}};
  CHECK(message(problem) ==
        "no choice keeps the usage limit -3: the least possible peak is 5, at time 4; "
        "raise the limit by 8 or allow strategies that use less");
  problem.usage_limit = INT64_MIN;
  CHECK(message(problem) == "the usage limit is -9223372036854775808; it must be above -10^18");
  problem.usage_limit = INT64_MAX;
  CHECK(message(problem) == "no error");
}

TEST_CASE("a problem whose every choice is forbidden says so") {
  Problem problem;
  problem.nodes = {{{1, 2}, {}}, {{3, kInfinite}, {}}};
  problem.edges = {{0, 1, table({kInfinite, 0, kInfinite, 0})}};
  CHECK(message(problem) ==
        "no choice avoids the forbidden combinations (costs of at least 10^18), "
        "whatever the usage limit; allow more strategies or lower those costs");
}

TEST_CASE("a choice that does not fit the problem cannot be evaluated") {
  Problem problem;
  problem.nodes = {{{1, 2}, {}}};
  CHECK_THROWS_WITH_AS(evaluate(problem, {}), "the choice names 0 strategies but there are 1 nodes",
                       Error);
  CHECK_THROWS_WITH_AS(evaluate(problem, {2}),
                       "strategy 2 was chosen for node 0, which has 2 strategies", Error);
}

TEST_CASE("training graphs are proven optimal without branching") {
  Solution small = solve(training_graph(12, false, 0));
  CHECK(small.optimal);
  CHECK(small.statistics.variables == 0);
  CHECK(solve(training_graph(96, true, 0)).optimal);
}

TEST_CASE("elimination finds what the integer program finds on a training graph") {
  Problem problem = training_graph(1, false, 0);
  Options program;
  program.methods.presolve.elimination = program.methods.presolve.degree_one =
      program.methods.presolve.degree_two = false;
  program.methods.dual_sweeps = 0;
  Solution expected = solve(problem, program);
  REQUIRE(expected.optimal);
  CHECK(solve(problem).cost == expected.cost);
}

TEST_CASE("a training graph under a tight usage limit keeps it at a proven cost") {
  Problem problem = training_graph(4, false, 0);
  Solution free = solve(problem);
  problem.usage_limit = free.peak_usage - 1;
  Solution tight = solve(problem);
  CHECK(tight.optimal);
  CHECK(tight.cost >= free.cost);
  CHECK(tight.peak_usage < free.peak_usage);
}

TEST_CASE("equal problems get equal choices, in several threads at once") {
  std::vector<Problem> problems;
  for (std::uint64_t seed = 400'000; problems.size() < 40; ++seed) {
    Problem problem = draw_problem(seed, 6);
    if (problem.usage_limit && enumerate(problem).cost) problems.push_back(std::move(problem));
  }
  Options options;
  options.methods.presolve.elimination = false;
  auto run = [&](std::vector<std::vector<int>>& choices) {
    for (const Problem& problem : problems) choices.push_back(solve(problem, options).choice);
  };
  std::vector<std::vector<int>> once, twice;
  std::thread other([&] { run(twice); });
  run(once);
  other.join();
  CHECK(once == twice);
}

}  // namespace
}  // namespace alpa::ilp::solve_test
