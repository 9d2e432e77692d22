#pragma once
/// Rules on the regions that a node may read from: shared by `verify` (a pass broke it: Bug) and
/// `Recorder::finish` (the user did: Error).
#include <string>

#include "alpa/ir/graph.h"

namespace alpa {

/// The first breach of the region rules documented at `verify`, as a
/// message; empty if there is none.
std::string region_mistake(const Graph& graph);

/// `einsum "dense0/einsum"`: a node for messages.
std::string describe(const Node& node);

}  // namespace alpa
