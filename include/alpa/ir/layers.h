#pragma once
/// Layers of a model in its training graph. Forward nodes get theirs from `LayerScope`; `gradient` gives
/// backward nodes those of their forward nodes.
#include "alpa/ir/graph.h"

namespace alpa {

/// `graph` with layers of everything else. An input belongs to the layer whose nodes alone read it,
/// optimizer state to that of its parameter; an apply node to the layer whose values it reads (scalars
/// aside), or else the one that its results go to; the sum of an accumulator to the layer that reads it.
/// What several layers share, such as tied weights and the norm of all gradients, belongs to none (-1),
/// with all nodes that are marked so.
Graph with_layers(const Graph& graph);

}  // namespace alpa
