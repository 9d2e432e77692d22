#pragma once
/// The one way from a graph to a changed graph.
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

struct Rewritten {
  Graph graph;
  std::vector<int> values;  ///< per value of `graph`, its number before
};

/// `graph` with `nodes` instead of its own, in this order; they name values by their numbers in `graph`.
/// Left out are nodes without operator and nodes that are not needed: only inputs, and what updates,
/// metrics, outputs and needed nodes read, stay. Values are numbered anew in order of definition. Throws
/// Bug if one is read that no node before defines.
Rewritten with_nodes(const Graph& graph, std::vector<Node> nodes);

/// Per value, whether an update, a metric or an output takes it.
std::vector<bool> taken_values(const Graph& graph);

}  // namespace alpa
