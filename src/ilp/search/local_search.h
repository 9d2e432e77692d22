#pragma once
/// Feasible choices of a model's live nodes, made cheaper by small moves. A move changes a node or
/// two neighbours. The copies of their shared terms follow to the states that are cheapest when
/// usages cost `row_prices` (one per row; empty: nothing); other states of copies are moves of
/// their own. Costs exclude the model's constant.
#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// Moves as long as that lowers the cost and keeps the rows. `choice` must be allowed and keep the
/// rows. Ends at the deadline.
void improve(const Model& model, std::vector<int>& choice, const Deadline& deadline,
             const std::vector<double>& row_prices = {});

/// Tries to bring `choice` within the rows by the cheapest moves per unit of relief, and away from
/// infinite costs. True on success; false after `moves` moves or at the deadline.
bool repair(const Model& model, std::vector<int>& choice, int moves, const Deadline& deadline,
            const std::vector<double>& row_prices = {});

/// Translates `choice`, one strategy per node of the problem, to the live nodes: nodes whose
/// strategy was dropped take the cheapest that goes with the others, then small moves make it
/// cheaper for at most a quarter of the time. Nothing if the result is forbidden or exceeds rows.
std::vector<int> carry_over(const Model& model, std::vector<int> choice, const Deadline& deadline);

}  // namespace alpa::ilp
