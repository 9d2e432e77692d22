#pragma once
/// Peak of live bytes under a plan, on the device with the largest shards.
#include "alpa/intra_op/plan.h"
#include "src/intra_op/facts/graph_facts.h"

namespace alpa::intra_op {

struct PeakMemory {
  std::int64_t bytes = 0;
  int point = 0;  ///< a node, or the number of nodes for the end of the step
};

/// Largest sum over the points of the step, and the first point where it is reached: values from
/// where they are made to the last use that reads them or reshards them, copies from their first
/// use to their last. Operators in place count once (live_ranges.h).
PeakMemory peak_memory(const ShardingPlan& plan, const GraphFacts& facts);
PeakMemory peak_memory(const ShardingPlan& plan, const Graph& graph);

}  // namespace alpa::intra_op
