#pragma once
/// Parts of a graph as graphs of their own.
#include <cstdint>
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// A part of a graph. Values read from other parts are boundary inputs, named after their number in
/// the whole graph ("%12"). They are in region apply if computed once per step. Values that other
/// parts read are outputs with such names.
struct Subgraph {
  Graph graph;
  /// per node of `graph`, the node of the whole graph with the same (first) value
  std::vector<int> nodes;
  std::vector<int> values;  ///< per value of `graph`, its number in the whole graph
};

/// The nodes of layers `first` to `last` (see `with_layers`), with their updates and metrics.
/// Scalar inputs are inputs of every part. first = last = -1: the nodes of no layer. Throws Error
/// if a sum over micro-batches is read in another part than the one that accumulates it.
Subgraph subgraph(const Graph& graph, int first, int last);

/// A hash that is equal for equal layers of a stack. It covers operators, types, attributes,
/// regions and connections, but not names, layer numbers and random streams.
std::uint64_t layer_hash(const Graph& graph);

}  // namespace alpa
