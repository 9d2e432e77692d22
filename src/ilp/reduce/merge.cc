// Functional merge: a node that follows from another is absorbed by it
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/reduce/presolve.h"

namespace alpa::ilp {

std::optional<std::vector<int>> function_across(const Model& model, int edge, int node) {
  View table = view(model, edge, node);
  std::vector<int> partner(model.nodes[node].size(), -1);
  for (std::size_t p = 0; p < partner.size(); ++p) {
    for (int q = 0; q < table.columns; ++q) {
      if (table.at(static_cast<int>(p), q) >= kNever) continue;
      if (partner[p] >= 0) return std::nullopt;
      partner[p] = q;
    }
    if (partner[p] < 0) return std::nullopt;
  }
  return partner;
}

void absorb(Model& model, int edge, int index, const std::vector<int>& partner) {
  int gone = model.edges[edge].other(index);
  ModelNode &node = model.nodes[index], &other = model.nodes[gone];
  View table = view(model, edge, index);
  for (int p = 0; p < node.size(); ++p)
    node.costs[p] = plus(node.costs[p], plus(table.at(p, partner[p]), other.costs[partner[p]]));
  for (const Piece& piece : other.pieces) {
    Piece mapped{piece.from, piece.to, {}};
    for (int q : partner) mapped.amounts.push_back(piece.amounts[q]);
    node.pieces.push_back(std::move(mapped));
    node.normal = false;
  }
  take_ends(model, index, gone, partner);
  remove_edge(model, edge);
  std::vector<int> moved = other.edges;
  for (int e : moved) {
    View old = view(model, e, gone);
    std::vector<Cost> costs;
    costs.reserve(partner.size() * old.columns);
    for (int q : partner)
      for (int r = 0; r < old.columns; ++r) costs.push_back(old.at(q, r));
    int neighbour = model.edges[e].other(gone);
    remove_edge(model, e);
    add_edge(model, index, neighbour, std::move(costs));
  }
  retire(model, gone, {index}, partner);
}

}  // namespace alpa::ilp
