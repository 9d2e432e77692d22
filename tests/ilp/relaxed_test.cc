/// Problems without forbidden pairs under a tight usage limit: the rows alone couple distant nodes.
#include <doctest/doctest.h>

#include <algorithm>

#include "random_problem.h"
#include "src/ilp/solve.h"

namespace alpa::ilp::relaxed_test {
namespace {

/// Nodes in a band, each live for long; whoever costs less uses more; the limit
/// is 3/2 of the least peak.
Problem relaxed_problem(std::uint64_t seed, int nodes) {
  testing::Draw draw{std::mt19937_64(seed)};
  Problem problem;
  std::vector<std::int64_t> least(static_cast<std::size_t>(2 * nodes), 0);
  for (int i = 0; i < nodes; ++i) {
    const int strategies = draw.between(3, 6);
    const std::int64_t largest = draw.between(100, 2099);
    Node node;
    Usage usage{i, i + 1 + draw.between(0, nodes / 3 - 1), {}};
    for (int s = 0; s < strategies; ++s) {
      node.costs.push_back(draw.between(0, 49) + s * draw.between(0, 499));
      usage.amounts.push_back(largest >> s);
    }
    for (std::int64_t t = usage.from; t < usage.to; ++t)
      least[static_cast<std::size_t>(t)] += usage.amounts.back();
    node.usages.push_back(std::move(usage));
    problem.nodes.push_back(std::move(node));
    for (const int reach : {4, 40}) {
      const int j = i - 1 - draw.between(0, reach - 1);
      if (j < 0) continue;
      const int others = static_cast<int>(problem.nodes[static_cast<std::size_t>(j)].costs.size());
      std::vector<std::int64_t> costs;
      for (int p = 0; p < others; ++p)
        for (int q = 0; q < strategies; ++q) costs.push_back(p == q ? 0 : draw.between(200, 999));
      problem.edges.push_back({j, i, table(std::move(costs))});
    }
  }
  problem.usage_limit = *std::max_element(least.begin(), least.end()) * 3 / 2;
  return problem;
}

TEST_CASE(
    "where only usage rows couple distant nodes, mixing the choices met ends near the bound") {
  double gaps = 0;
  for (std::uint64_t seed : {1, 2}) {
    Options options;
    options.limits.work = 350'000'000;  // 0.6 seconds of a core
    const Solution solution = solve(relaxed_problem(seed, 1500), options);
    CAPTURE(solution.cost);
    CAPTURE(solution.lower_bound);
    gaps += solution.gap();
  }
  CHECK(gaps / 2 < 0.0165);
}

}  // namespace
}  // namespace alpa::ilp::relaxed_test
