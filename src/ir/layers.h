#pragma once
/// Layers of a model in its training graph. `LayerScope` assigns them to forward nodes; `gradient`
/// gives a backward node the layer of its forward node.
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// `graph` with layers assigned to all other nodes. An input belongs to the only layer that reads
/// it, optimizer state to its parameter's layer. An apply node belongs to the layer whose values it
/// reads (except scalars), or else to the layer that reads its results; the sum of an accumulator
/// to the layer that reads it. Anything shared by several layers, such as tied weights and the norm
/// of all gradients, has layer -1.
Graph with_layers(Graph graph);
/// The same layers, by node.
std::vector<int> assigned_layers(const Graph& graph);

}  // namespace alpa
