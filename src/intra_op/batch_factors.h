#pragma once
/// Finds the batch factor of every node: dimension 0 of the batch inputs, followed through the
/// index rules of all nodes, forward and backward (in xᵀ·dy the batch is the summed factor).
#include <vector>

#include "node_classes.h"

namespace alpa::intra_op {

/// Per node the factor of its rule that is the batch, -1 if it has none.
std::vector<int> batch_factors(const Graph& graph, const NodeClasses& classes);

}  // namespace alpa::intra_op
