#pragma once
/// Where sums over micro-batches stand in a step.
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// Moves additions to accumulators, and a conversion right before one, from the end of their
/// region to where the addend is made, so that gradients do not wait in memory for the last one.
/// The accumulators move to the start of the region. `nodes` are those of `graph`, which has their
/// updates, in an order that may differ.
void add_early(const Graph& graph, std::vector<Node>& nodes);

}  // namespace alpa
