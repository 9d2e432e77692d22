// The quick lower bound against the optimum by enumeration, and on a training graph.
#include "src/ilp/dual/dual_bound.h"

#include <doctest/doctest.h>

#include "random_problem.h"
#include "src/ilp/solve.h"
#include "training_graph.h"

namespace dual_bound_test {

using namespace alpa::ilp;
using namespace alpa::ilp::testing;

TEST_CASE("the dual bound is at most the optimum, and mostly equals it on small problems") {
  int solvable = 0, tight = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Problem problem = draw_sharing_problem(seed, 6);
    problem.usage_limit.reset();
    const std::optional<std::int64_t> optimum = enumerate(problem).cost;
    const std::int64_t bound = dual_bound(problem, 24);
    if (!optimum) continue;
    CHECK(bound <= *optimum);
    CHECK(dual_bound(problem, 0) <= *optimum);
    ++solvable;
    tight += bound == *optimum ? 1 : 0;
  }
  CHECK(solvable > 300);
  CHECK(tight > solvable * 8 / 10);
}

TEST_CASE("the dual bound of a training graph is within a twentieth after a few sweeps") {
  Problem problem = training_graph(3, true, 0);
  problem.usage_limit.reset();
  const auto optimum = static_cast<double>(solve(problem).cost);
  CHECK(static_cast<double>(dual_bound(problem, 24)) <= optimum);
  CHECK(static_cast<double>(dual_bound(problem, 24)) >= 0.95 * optimum);
}

}  // namespace dual_bound_test
