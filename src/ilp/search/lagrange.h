#pragma once
/// Models with usage rows that could be eliminated exactly if there were none: the rows are
/// priced, and every trial of prices is solved exactly. The bound is then tighter than the
/// dual of the local polytope.
#include <optional>

#include "src/ilp/model/model.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

struct Priced {
  std::vector<int> choice;  ///< best feasible choice of the live nodes; empty: none found
  Cost cost = kNever;       ///< of `choice`, without the model's constant
  Cost bound = -kNever;     ///< proven, without the constant
};

/// nullopt if the model without rows is too wide to eliminate. Stops after `trials` prices, or when
/// bound and cost meet, or at the deadline. Throws Contradiction.
std::optional<Priced> price_rows(const Model& model, const Options& options, int trials,
                                 const Deadline& deadline);

}  // namespace alpa::ilp
