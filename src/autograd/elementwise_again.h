#pragma once
/// Elementwise results that the backward pass computes again, because that takes less memory.
#include "alpa/ir/graph.h"

namespace alpa {

/// `graph` with elementwise results of its forward nodes computed again by gradients, where only
/// elementwise nodes read them there and keeping what they are made of takes fewer bytes: of
/// silu(gate) · up, gate and up are kept instead of these, silu and its sigmoid. The loop that
/// reads such a result computes it on the way, so that it costs no pass over memory. Layers that
/// are computed again as a whole keep the same values until their gradients read them. Nothing is
/// computed again across layers, which may be in different stages; `layer_per_node` says that they
/// are numbers of nodes instead.
Graph with_elementwise_again(Graph graph, bool layer_per_node);

}  // namespace alpa
