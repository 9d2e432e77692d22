#pragma once
/// Parts of a graph as graphs of their own.
#include <cstdint>
#include <map>
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// A part of a graph. Values read from other parts are boundary inputs, named after their number in
/// the whole graph ("%12"). They are in region apply if computed once per step; those that are the
/// same in all micro-batches say so (ir/lasting.h). Values that other parts read are outputs with
/// such names.
struct Subgraph {
  Graph graph;
  /// per node of `graph`, the node of the whole graph with the same (first) value
  std::vector<int> nodes;
  std::vector<int> values;  ///< per value of `graph`, its number in the whole graph
};

/// Cuts parts out of a graph. The graph is indexed once; a part then takes time in proportion to
/// its own size, so that all layers of a stack take as long as the graph. Plain data; the graph
/// outlives it.
class LayerCuts {
 public:
  explicit LayerCuts(const Graph& graph);

  /// The nodes of layers `first` to `last` (see `with_layers`), with their updates and metrics.
  /// Scalar inputs are inputs of every part. first = last = -1: the nodes of no layer. Throws Error
  /// if a sum over micro-batches is read in another part than the one that accumulates it.
  Subgraph cut(int first, int last) const;

  /// Layers that have nodes, ascending; -1 if there are nodes of no layer.
  std::vector<int> layers() const;

 private:
  class Cut;

  /// Members of a layer, by number in the graph, ascending.
  struct Members {
    std::vector<int> nodes, updates, metrics, outputs;
  };

  const Graph& graph_;
  std::map<int, Members> of_layer_;
  std::vector<int> first_reader_, last_reader_;  ///< per value: layers of nodes and updates
  std::vector<bool> is_sum_;                     ///< per value: of an accumulator
  std::vector<bool> lasts_;                      ///< per value: `lasting_values`
  std::vector<bool> held_;                       ///< per value: `held_values`
};

/// One part: `LayerCuts(graph).cut(first, last)`.
Subgraph subgraph(const Graph& graph, int first, int last);

/// A hash that is equal for equal layers of a stack. It covers operators, types, attributes,
/// regions and connections, but not names, layer numbers and random streams.
std::uint64_t layer_hash(const Graph& graph);

}  // namespace alpa
