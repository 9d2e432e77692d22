#pragma once
/// Which states of a tiling stages can lead to that are no longer than a bound.
#include <algorithm>
#include <vector>

#include "src/inter_op/partition_tables.h"
#include "src/inter_op/tiling.h"

namespace alpa::inter_op {

/// States with numbers from `begin` to `end` - 1.
struct StateRange {
  int begin = 0, end = 0;

  bool empty() const { return begin >= end; }
};

/// Per layer, and for the end, the states after the stages of it and of all that follow it, without
/// those whose devices do not suffice for these layers, or leave too few for the others.
std::vector<StateRange> states_in_reach(const PartitionTables& tables, const Tiling& tiling,
                                        double bound);

/// Calls visit(source, target, count) for the parts of a step between the two ranges.
template <class Visit>
void visit_step(const TilingStep& step, const StateRange& sources, const StateRange& targets,
                const Visit& visit) {
  const int begin = std::max({0, sources.begin - step.from, targets.begin - step.to});
  const int end = std::min({step.count, sources.end - step.from, targets.end - step.to});
  if (begin < end) visit(step.from + begin, step.to + begin, end - begin);
}

}  // namespace alpa::inter_op
