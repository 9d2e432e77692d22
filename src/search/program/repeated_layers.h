#pragma once
/// Nodes that may choose alike, because a graph repeats itself there.
#include <vector>

#include "src/search/program/instance.h"

namespace alpa::intra_op {

/// Groups of the instance's nodes, as ilp::fold takes them: every second one of the nodes that have
/// the same choices and the same surroundings, a few operators wide. So the nodes at one place of
/// equal layers are in two groups, and what a layer reads of the one before is not what it leaves
/// itself; what is near an end of the graph stays alone. Empty where the graph repeats itself so
/// little that more than half of the nodes would be left.
std::vector<int> repeated_layers(const Graph& graph, const SearchSpace& space,
                                 const Instance& instance);

}  // namespace alpa::intra_op
