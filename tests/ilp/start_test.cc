/// Choices given to start from.
#include <doctest/doctest.h>

#include "random_problem.h"
#include "src/ilp/solve.h"
#include "support/error_text.h"
#include "training_graph.h"

namespace alpa::ilp::start_test {
namespace {

using alpa::testing::error_of;
using testing::draw_problem;
using testing::enumerate;

/// A feasible choice drawn at random; empty if 200 draws found none.
std::vector<int> draw_feasible(const Problem& problem, std::uint64_t seed) {
  testing::Draw draw{std::mt19937_64(seed)};
  std::vector<int> choice(problem.nodes.size());
  for (int k = 0; k < 200; ++k) {
    for (std::size_t i = 0; i < choice.size(); ++i)
      choice[i] = draw.below(static_cast<int>(problem.nodes[i].costs.size()));
    if (evaluate(problem, choice).feasible) return choice;
  }
  return {};
}

Options no_time() {
  Options options;
  options.limits.seconds = 0;
  return options;
}

Options bounds_alone() {
  Options options;
  options.methods.use_cbc = options.methods.large_neighbourhood_search =
      options.methods.presolve.elimination = false;
  options.methods.dual_sweeps = 4;
  return options;
}

TEST_CASE(
    "a feasible start is never made worse, whatever the limits, and the optimum stays the "
    "optimum") {
  int tried = 0, better = 0;
  for (std::uint64_t seed = 500'000; seed < 501'500; ++seed) {
    const Problem problem = draw_problem(seed, 6);
    const std::vector<int> start = draw_feasible(problem, seed);
    if (start.empty()) continue;
    CAPTURE(seed);
    const std::int64_t cost = evaluate(problem, start).cost, best = *enumerate(problem).cost;
    for (Options options : {no_time(), bounds_alone(), Options{}}) {
      options.start = start;
      const Solution solution = solve(problem, options);
      CHECK(evaluate(problem, solution.choice).feasible);
      CHECK(solution.cost <= cost);
      CHECK(solution.lower_bound <= best);
      better += solution.cost < cost;
      if (!options.methods.use_cbc || options.limits.seconds == 0) continue;
      CHECK(solution.cost == best);
      CHECK(solution.optimal);
    }
    ++tried;
  }
  CHECK(tried > 800);
  CHECK(better > 800);
}

TEST_CASE(
    "a start survives the reductions of a training graph, and no time is needed to return it") {
  const Problem problem = testing::training_graph(24, false, 0);
  Options options = no_time();
  options.start = solve(problem).choice;
  const std::int64_t best = evaluate(problem, options.start).cost;
  CHECK(solve(problem, options).cost == best);
  Problem tight = problem;
  tight.usage_limit = evaluate(problem, options.start).peak_usage;
  CHECK(solve(tight, options).cost == best);
}

TEST_CASE("an infeasible start is done without") {
  Problem problem;
  problem.nodes = {{{5, 1}, {{0, 1, {1, 9}}}}, {{5, 1}, {{0, 1, {1, 9}}}}};
  problem.edges = {{0, 1, table({0, 0, kInfinite, 0})}};
  problem.usage_limit = 10;
  Options options;
  // forbidden; too much usage
  for (const std::vector<int>& start : {std::vector<int>{1, 0}, {1, 1}}) {
    options.start = start;
    CHECK(solve(problem, options).choice == std::vector<int>{0, 1});
  }
}

TEST_CASE("a start that does not fit the problem is refused") {
  Problem problem;
  problem.nodes = {{{1, 2}, {}}, {{1, 2, 3}, {}}};
  const auto message = [&](std::vector<int> start) {
    Options options;
    options.start = std::move(start);
    return error_of([&] { solve(problem, options); });
  };
  CHECK(
      message({1}) ==
      "Options::start names 1 strategies but the problem has 2 nodes; give one per node, or none");
  CHECK(message({1, 3}) ==
        "Options::start names strategy 3 for node 1, which has 3 strategies; count them from 0");
  CHECK(message({-1, 0}) ==
        "Options::start names strategy -1 for node 0, which has 2 strategies; count them from 0");
  CHECK(message({1, 2}) == "no error");
}

}  // namespace
}  // namespace alpa::ilp::start_test
