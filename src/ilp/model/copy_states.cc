// The cheapest states of copies, given what the ends of their terms choose
#include "src/ilp/model/copy_states.h"

#include <algorithm>

#include "src/ilp/model/rows.h"

namespace alpa::ilp {

bool has_copies(const Model& model) {
  return std::any_of(model.terms.begin(), model.terms.end(),
                     [](const SharedTerm& term) { return term.alive && !term.copies.empty(); });
}

CopyStates::CopyStates(const Model& model, const std::vector<double>& row_prices)
    : model_(model), at_(model.nodes.size(), 0) {
  const RowPrices upto(model, row_prices);
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const ModelNode& node = model.nodes[i];
    at_[i] = prices_.size();
    if (!node.copy || !node.alive) continue;
    for (int s = 0; s < node.size(); ++s) {
      double price = static_cast<double>(node.costs[s]), volume = 0;
      for (const Piece& piece : node.pieces) {
        price += upto.of(piece) * static_cast<double>(piece.amounts[s]);
        volume +=
            static_cast<double>(piece.to - piece.from) * static_cast<double>(piece.amounts[s]);
      }
      prices_.push_back(price);
      volumes_.push_back(volume);
    }
  }
}

int CopyStates::cheapest(const SharedTerm& term, const SharedCopy& copy, int row,
                         unsigned groups) const {
  if (groups == 0) return 0;
  int best = 0;
  double least = 0, smallest = 0;
  for (int s = 1; s < static_cast<int>(copy.supplies.size()); ++s) {
    if (!serves(copy.supplies[s], groups)) continue;
    const Cost cost = term.cost(row, copy, s);
    if (cost >= kNever) continue;
    const double all = static_cast<double>(cost) + price(copy.node, s), used = volume(copy.node, s);
    if (best > 0 && (all > least || (all == least && used >= smallest))) continue;
    best = s, least = all, smallest = used;
  }
  return best;
}

void CopyStates::complete(const SharedTerm& term, std::vector<int>& choice) const {
  const int row = term.source.classes[choice[term.source.node]];
  const std::vector<unsigned> wanted = wanted_groups(term, choice);
  for (const SharedCopy& copy : term.copies)
    choice[copy.node] = cheapest(term, copy, row, wanted[copy.column]);
}

void CopyStates::complete(std::vector<int>& choice) const {
  for (const SharedTerm& term : model_.terms)
    if (term.alive && !term.copies.empty()) complete(term, choice);
}

}  // namespace alpa::ilp
