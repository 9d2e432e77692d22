#pragma once
/// Values that are the same in all micro-batches of a step.
#include <string_view>
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {

/// Attribute of a boundary input that is the same in all micro-batches: its part gets it once per
/// step, and keeps it. Its value is kHeldElsewhere or kComputedElsewhere.
inline constexpr std::string_view kLastingAttribute = "lasting";
/// State of another part, which is there for the whole step; anything else.
inline constexpr std::int64_t kHeldElsewhere = 1, kComputedElsewhere = 2;

/// Per value, whether it is the same in all micro-batches of a step, of which there are several:
/// state, inputs that all micro-batches share, and what forward and backward nodes compute of these
/// alone, without random numbers.
std::vector<bool> lasting_values(const Graph& graph);

/// Per value, whether it is an input that is there for the whole step of several micro-batches:
/// state, of this part or another one. A copy of it in another layout may be made once per step.
std::vector<bool> held_values(const Graph& graph);

}  // namespace alpa
