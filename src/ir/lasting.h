#pragma once
/// What is the same in all micro-batches of a step.
#include <string_view>
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// Attribute of a boundary input that is the same in all micro-batches: its part gets it once per
/// step, and keeps it.
inline constexpr std::string_view kLastingAttribute = "lasting";

/// Per value, whether it is the same in all micro-batches of a step, of which there are several:
/// state, inputs that all micro-batches share, and what forward and backward nodes compute of these
/// alone, without random numbers.
std::vector<bool> lasting_values(const Graph& graph);

}  // namespace alpa
