#pragma once
/// Local search with copies of shared terms: when a node moves, the copies of its terms follow.
#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// As `improve` and `repair` (local_search.h). A copy follows to the state that is cheapest when
/// usages cost `row_prices` (empty: nothing); its other states are moves of their own.
void improve_with_copies(const Model& model, std::vector<int>& choice,
                         const std::vector<double>& row_prices, const Deadline& deadline);
bool repair_with_copies(const Model& model, std::vector<int>& choice, int moves,
                        const std::vector<double>& row_prices, const Deadline& deadline);

}  // namespace alpa::ilp
