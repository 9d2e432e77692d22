#pragma once
/// Usage rows of a model: normal form of the pieces, strategies that cannot
/// fit, rows that cannot bind.
#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// Prices per unit of usage, one per row of the model or none at all, summed up so that a piece is
/// priced in one step.
class RowPrices {
 public:
  RowPrices(const Model& model, const std::vector<double>& prices)
      : sums_(model.slack.size() + 1, 0) {
    for (std::size_t r = 0; r < prices.size(); ++r) sums_[r + 1] = sums_[r] + prices[r];
  }

  /// Price of one unit over all rows of the piece.
  double of(const Piece& piece) const { return sums_[piece.to] - sums_[piece.from]; }

 private:
  std::vector<double> sums_;
};

/// Makes every node's pieces disjoint and ordered with smallest amount 0; what is used whatever is
/// chosen is taken from `slack`. Throws Contradiction naming the row that lacks most.
void normalise(Model& model);

/// Strategies of `node` that fit the slack left when all others use least,
/// ascending. Needs normal pieces.
std::vector<int> fitting_strategies(const Model& model, int node);

/// Drops rows that cannot be violated and rows implied by a neighbouring row. Needs normal pieces.
/// Returns true if any row was dropped.
bool drop_rows(Model& model);

}  // namespace alpa::ilp
