#pragma once
/// Renumbering and dead-node removal, shared by all passes from graph to graph.
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

struct Rewritten {
  Graph graph;
  std::vector<int> values;  ///< per value of `graph`, its old number
};

/// `graph` with `nodes` in place of its own, in this order; they refer to values by their numbers
/// in `graph`. Nodes without an operator are dropped, and so are dead nodes: all except inputs and
/// nodes that updates, metrics and outputs need. Values are renumbered in order of definition.
/// Throws Bug if a node reads a value that no earlier node defines.
Rewritten with_nodes(const Graph& graph, std::vector<Node> nodes);

/// Per value, whether an update, a metric or an output takes it.
std::vector<bool> externally_used_values(const Graph& graph);

}  // namespace alpa
