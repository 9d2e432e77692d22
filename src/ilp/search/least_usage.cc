// A proven lower bound on the usage of every choice at one row
#include "src/ilp/search/least_usage.h"

#include "src/ilp/eliminate/eliminate.h"
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/reduce/presolve.h"
#include "src/ilp/search/core.h"

namespace alpa::ilp {
namespace {

/// Bound and first choices, and no search for better ones.
Options quick(Options options) {
  options.limits.cutoff = kInfinite;
  options.progress = nullptr;
  options.limits.relative_gap = 0;
  options.methods.large_neighbourhood_search = options.methods.use_cbc = false;
  return options;
}

}  // namespace

Model usage_at(const Model& model, int row) {
  Model result;
  result.nodes = model.nodes;
  result.edges = model.edges;
  result.terms = model.terms;
  for (ModelNode& node : result.nodes) {
    free_of_charge(node.costs);
    for (const Piece& piece : node.pieces)
      for (std::size_t s = 0; row >= piece.from && row < piece.to && s < node.costs.size(); ++s)
        node.costs[s] = plus(node.costs[s], piece.amounts[s]);
    node.pieces.clear();
    node.normal = true;
  }
  for (ModelEdge& edge : result.edges) free_of_charge(edge.costs);
  for (SharedTerm& term : result.terms) {
    free_of_charge(term.costs);
    term.splits.clear();
  }
  return result;
}

LeastUsage least_usage(const Model& model, int row, const Options& given,
                       const Deadline& deadline) {
  const Options options = quick(given);
  Model usage = usage_at(model, row);
  presolve(usage, options, deadline);
  if (options.methods.presolve.elimination)
    eliminate(usage, options.methods.elimination_cells, deadline);
  Statistics statistics;
  CoreSolution solution = solve_core(usage, kNever, {}, options, deadline, statistics);
  if (!solution.choice.empty()) {
    postsolve(usage, solution.choice);
    solution.choice.resize(model.nodes.size());
  }
  return {solution.bound, std::move(solution.choice)};
}

}  // namespace alpa::ilp
