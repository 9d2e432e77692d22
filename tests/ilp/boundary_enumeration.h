#pragma once
/// Tables of boundaries by enumeration.
#include <algorithm>
#include <vector>

#include "src/ilp/model/boundary_table.h"

namespace alpa::ilp::testing {

inline std::int64_t joint_cost(const JointCosts& joint, const Problem& problem,
                               const std::vector<int>& choice) {
  std::size_t index = 0;
  for (int node : joint.nodes) index = index * problem.nodes[node].costs.size() + choice[node];
  return (*joint.costs)[index];
}

/// Least cost by the choice of the boundary, by trying everything.
inline std::vector<std::int64_t> least_by_boundary(const Problem& problem,
                                                   const std::vector<int>& boundary,
                                                   const std::vector<JointCosts>& joint = {}) {
  std::vector<int> choice(problem.nodes.size(), 0);
  std::size_t size = 1;
  for (int node : boundary) size *= problem.nodes[node].costs.size();
  std::vector<std::int64_t> least(size, kInfinite);
  for (;;) {
    std::int64_t cost = evaluate(problem, choice).cost;
    for (const JointCosts& j : joint)
      cost = std::min(kInfinite, cost + joint_cost(j, problem, choice));
    std::size_t index = 0;
    for (int node : boundary) index = index * problem.nodes[node].costs.size() + choice[node];
    least[index] = std::min(least[index], cost);
    std::size_t n = 0;
    while (n < choice.size() && ++choice[n] == static_cast<int>(problem.nodes[n].costs.size()))
      choice[n++] = 0;
    if (n == choice.size()) return least;
  }
}

}  // namespace alpa::ilp::testing
