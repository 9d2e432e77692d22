#pragma once
/// Feasible choices made cheaper by chains of moves: a node takes another strategy, its neighbours
/// answer with what is then best for them, and so on.
#include <vector>

#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// Carries out chains as long as they lower the cost and keep the rows, for several weights of
/// `row_prices`, the cost of a unit of usage of each row. `choice` must be allowed and keep the
/// rows; it ends as the cheapest choice met. Needs a model without shared terms. Ends at the
/// deadline.
void improve_by_chains(const Model& model, std::vector<int>& choice,
                       const std::vector<double>& row_prices, const Deadline& deadline);

}  // namespace alpa::ilp
