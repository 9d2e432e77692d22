#pragma once
/// States of the copies of shared terms, as far as they follow from what the terms' ends choose.
#include "src/ilp/model/model.h"

namespace alpa::ilp {

bool has_copies(const Model& model);

/// The cheapest states, usages priced by row (prices may be empty: usages are free), and of equally
/// cheap ones those that use least. The model outlives it.
class CopyStates {
 public:
  CopyStates(const Model& model, const std::vector<double>& row_prices);

  /// The state of `copy` that serves these groups in the row; absence where none can.
  int cheapest(const SharedTerm& term, const SharedCopy& copy, int row, unsigned groups) const;

  /// Sets the copies of one term, or of all, as the other choices need.
  void complete(const SharedTerm& term, std::vector<int>& choice) const;
  void complete(std::vector<int>& choice) const;

  /// Price and volume of the usages of a state.
  double price(int node, int state) const {
    return prices_[at_[node] + static_cast<std::size_t>(state)];
  }
  double volume(int node, int state) const {
    return volumes_[at_[node] + static_cast<std::size_t>(state)];
  }

 private:
  const Model& model_;
  std::vector<std::size_t> at_;  ///< per node of the model
  std::vector<double> prices_, volumes_;
};

}  // namespace alpa::ilp
