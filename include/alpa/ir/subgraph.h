#pragma once
/// Parts of a graph that are graphs themselves.
#include <cstdint>
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// A part of a graph. Values that it reads of other parts are boundary inputs, named after their number in
/// the whole ("%12"), in region apply where they are there once per step; values that other parts read are
/// outputs of the same names.
struct Subgraph {
  Graph graph;
  std::vector<int> nodes;   ///< per node of `graph`, the node of the whole whose (first) value it gives
  std::vector<int> values;  ///< per value of `graph`, that of the whole
};

/// Nodes of the layers from `first` to `last` (as `with_layers` gives them), updates of state and
/// accumulators and metrics that belong to them; scalar inputs are inputs of every part. With first = last
/// = -1: what belongs to no layer. Throws Error if a sum over micro-batches is read in another part than
/// adds it up.
Subgraph subgraph(const Graph& graph, int first, int last);

/// A hash under which equal layers of a stack are equal: of operators, types, attributes, regions, and how
/// they are connected, without names, layers and streams of random numbers.
std::uint64_t layer_hash(const Graph& graph);

}  // namespace alpa
