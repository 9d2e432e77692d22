// The best mixture of several choices, as a restricted model solved again
#include "src/ilp/search/crossover.h"

#include <algorithm>

#include "src/ilp/search/core.h"

namespace alpa::ilp {
namespace {

/// The model with the strategies of the choices only.
Model restricted(const Model& model, const std::vector<std::vector<int>>& choices) {
  Model result = model;
  result.trail.clear();
  for (int i : live_nodes(model)) {
    std::vector<int> kept;
    for (const std::vector<int>& choice : choices) kept.push_back(choice[i]);
    kept = distinct(std::move(kept));
    if (static_cast<int>(kept.size()) < model.nodes[i].size()) keep_strategies(result, i, kept);
  }
  return result;
}

}  // namespace

std::vector<int> cross(const Model& model, const std::vector<std::vector<int>>& choices,
                       const Options& options, const Deadline& deadline) {
  double cells = 0;
  for (int e : live_edges(model)) cells += static_cast<double>(model.edges[e].costs.size());
  deadline.spend(cells);
  const Cost cutoff = plus(price(model, choices.front()), model.constant);
  try {
    return solve_inner(restricted(model, choices), cutoff, inner_options(options), deadline);
  } catch (const Contradiction&) {
    return {};
  }
}

}  // namespace alpa::ilp
