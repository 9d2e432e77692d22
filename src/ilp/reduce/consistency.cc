// Projection of row and column minima, and arc consistency
#include <algorithm>

#include "src/ilp/reduce/presolve.h"

namespace alpa::ilp {
namespace {

/// Moves the minimum of every line (row or column) of a table to `costs`.
void project_lines(std::vector<Cost>& table, std::vector<Cost>& costs, int line_stride, int step,
                   int length) {
  for (std::size_t p = 0; p < costs.size(); ++p) {
    Cost* line = table.data() + p * line_stride;
    Cost least = kNever;
    for (int q = 0; q < length; ++q) least = std::min(least, line[q * step]);
    if (least == 0 || least >= kNever) continue;
    costs[p] = plus(costs[p], least);
    for (int q = 0; q < length; ++q)
      if (line[q * step] < kNever) line[q * step] -= least;
  }
}

}  // namespace

bool project(Model& model, int index) {
  ModelEdge& edge = model.edges[index];
  ModelNode &a = model.nodes[edge.a], &b = model.nodes[edge.b];
  project_lines(edge.costs, a.costs, b.size(), 1, b.size());
  project_lines(edge.costs, b.costs, 1, b.size(), a.size());
  return std::all_of(edge.costs.begin(), edge.costs.end(), [](Cost c) { return c == 0; });
}

std::vector<int> supported_strategies(const Model& model, int index) {
  const ModelNode& node = model.nodes[index];
  std::vector<char> supported(node.size());
  for (int s = 0; s < node.size(); ++s) supported[s] = node.costs[s] < kNever;
  for (int e : node.edges) {
    View table = view(model, e, index);
    for (int p = 0; p < node.size(); ++p) {
      bool finite = false;
      for (int q = 0; q < table.columns && !finite; ++q) finite = table.at(p, q) < kNever;
      supported[p] &= finite;
    }
  }
  return marked(supported);
}

}  // namespace alpa::ilp
