#pragma once
/// A problem that no limit of a test solves.
#include "random_problem.h"
#include "src/ilp/model/problem.h"

namespace alpa::ilp::testing {

/// Every pair of nodes has random costs: far from being solved in minutes.
inline Problem hard_problem(int nodes) {
  Draw draw{std::mt19937_64(7)};
  Problem problem;
  problem.nodes.assign(static_cast<std::size_t>(nodes), {std::vector<std::int64_t>(12, 0), {}});
  for (int a = 0; a < nodes; ++a)
    for (int b = a + 1; b < nodes; ++b)
      problem.edges.push_back({a, b, table(draw_costs(draw, 144, 0, 1000))});
  return problem;
}

}  // namespace alpa::ilp::testing
