#pragma once
/// Large random problems of the kinds that take long in different parts of the solver.
#include <algorithm>
#include <string>

#include "random_problem.h"
#include "src/ilp/model/problem.h"

namespace alpa::ilp::testing {

struct Large {
  std::string kind;
  Problem problem;
};

inline std::vector<std::int64_t> large_costs(Draw& draw, int count, int forbidden_percent) {
  std::vector<std::int64_t> costs(static_cast<std::size_t>(count));
  for (auto& c : costs) c = draw.chance(forbidden_percent) ? kInfinite : draw.below(100'000);
  return costs;
}

/// Edges to nodes shortly before. The choice of 0 everywhere is allowed.
inline Problem banded(Draw& draw, int nodes, int strategies, int degree, int reach,
                      int forbidden_percent) {
  Problem problem;
  for (int i = 0; i < nodes; ++i)
    problem.nodes.push_back({large_costs(draw, draw.between(2, strategies), 0), {}});
  for (int i = 1; i < nodes; ++i)
    for (int k = draw.between(1, degree); k > 0; --k) {
      const int j = std::max(0, i - draw.between(1, reach));
      const auto rows = static_cast<int>(problem.nodes[j].costs.size()),
                 columns = static_cast<int>(problem.nodes[i].costs.size());
      std::vector<std::int64_t> costs = large_costs(draw, rows * columns, forbidden_percent);
      costs[0] = draw.below(100'000);
      problem.edges.push_back({j, i, table(std::move(costs))});
    }
  return problem;
}

/// Every node uses something for a while; the limit is `percent` of the way
/// from the least to the most.
inline void add_usages(Draw& draw, Problem& problem, int longest, int percent) {
  const int nodes = static_cast<int>(problem.nodes.size());
  std::vector<std::int64_t> least(nodes + longest + 1), most(least);
  for (int i = 0; i < nodes; ++i) {
    Usage usage{i, i + draw.between(1, longest), {}};
    for (std::size_t s = 0; s < problem.nodes[i].costs.size(); ++s)
      usage.amounts.push_back(draw.between(0, 1'000'000));
    for (auto t = usage.from; t < usage.to; ++t) {
      least[t] += *std::min_element(usage.amounts.begin(), usage.amounts.end());
      most[t] += *std::max_element(usage.amounts.begin(), usage.amounts.end());
    }
    problem.nodes[i].usages.push_back(std::move(usage));
  }
  const std::int64_t low = *std::max_element(least.begin(), least.end()),
                     high = *std::max_element(most.begin(), most.end());
  problem.usage_limit = low + (high - low) * percent / 100;
}

inline constexpr int kKinds = 7;

/// Kind `number` modulo kKinds, about `size` times as large as what takes milliseconds.
inline Large large_problem(std::uint64_t seed, int number, int size) {
  Draw draw{std::mt19937_64(seed)};
  switch (number % kKinds) {
    case 0: return {"wide band", banded(draw, 400 * size, 12, 4, 40, 20)};
    case 1: return {"narrow band of many strategies", banded(draw, 40 * size, 120, 2, 3, 5)};
    case 2: return {"much forbidden", banded(draw, 400 * size, 10, 3, 12, 60)};
    case 3: {
      Problem problem = banded(draw, 300 * size, 10, 3, 20, 10);
      add_usages(draw, problem, 60, 20);
      return {"band under a tight limit", std::move(problem)};
    }
    case 4: {
      Problem problem = banded(draw, 300 * size, 8, 1, 1, 0);
      add_usages(draw, problem, 200 * size, 30);
      return {"chain with long usages", std::move(problem)};
    }
    case 5: {
      Problem problem = banded(draw, 12 * size, 14, 12 * size, 12 * size, 0);
      return {"nearly a clique", std::move(problem)};
    }
    default: {
      Problem problem = banded(draw, 30 * size, 12, 5, 30 * size, 30);
      add_usages(draw, problem, 20, 5);
      return {"sparse under a very tight limit", std::move(problem)};
    }
  }
}

}  // namespace alpa::ilp::testing
