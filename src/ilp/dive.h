#pragma once
/// A first allowed choice, found without any bound.
#include <optional>

#include "model.h"

namespace alpa::ilp {

/// A choice of the live nodes without infinite costs, node after node the strategy that is cheapest given
/// what has been chosen before; strategies that nothing allowed goes with any more are ruled out after
/// every step, and a step that leaves a node without any is taken back. Rows are not looked at. Nothing if
/// `attempts` steps were taken back.
std::optional<std::vector<int>> dive(const Model& model, int attempts);

}  // namespace alpa::ilp
