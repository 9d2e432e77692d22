/// A search that is told to stop.
#include <doctest/doctest.h>

#include <thread>

#include "hard_problem.h"
#include "src/ilp/solve.h"
#include "training_graph.h"

namespace alpa::ilp::stop_test {
namespace {

TEST_CASE(
    "a search that is stopped gives the best choice so far, in CBC and in large neighbourhood "
    "search") {
  for (int nodes : {40, 70}) {  // the larger one is not left to CBC
    const Problem problem = testing::hard_problem(nodes);
    std::atomic<bool> stop = false;
    Options options;
    options.limits.seconds = 600;
    options.limits.stop = &stop;
    std::thread user([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      stop = true;
    });
    const Solution solution = solve(problem, options);
    user.join();
    CAPTURE(nodes);
    CHECK(solution.seconds < 60);
    CHECK(!solution.optimal);
    CHECK(evaluate(problem, solution.choice).feasible);
    CHECK(solution.lower_bound <= solution.cost);
  }
}

TEST_CASE("a search that is stopped before it starts still finds a choice") {
  const Problem problem = testing::training_graph(96, true, 0);
  const std::atomic<bool> stop = true;
  Options options;
  options.limits.stop = &stop;
  CHECK(evaluate(problem, solve(problem, options).choice).feasible);
}

}  // namespace
}  // namespace alpa::ilp::stop_test
