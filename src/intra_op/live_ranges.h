#pragma once
/// When the values of a graph occupy memory, before anything is known of layouts. Points are node indices;
/// one more stands for the end of the step. Updates in place take no memory of their own, and neither does
/// an elementwise result that takes over the buffer of an operand which dies there.
#include <vector>

#include "uses.h"

namespace alpa {

/// Points [from, to).
struct LiveRange {
  int from = 0, to = 0;
};

/// Per value. State and accumulators live always, batch inputs from the start.
std::vector<LiveRange> live_ranges(const Graph& graph, const std::vector<std::vector<Use>>& uses);

/// The point at which a use happens: a node's own; for an update, that of the node that computes the new
/// value; the end for metrics.
int point_of_use(const Graph& graph, int use);

}  // namespace alpa
