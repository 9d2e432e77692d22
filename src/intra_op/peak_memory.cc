// src/intra_op/peak_memory.cc — liveness of a plan
#include "peak_memory.h"

#include <algorithm>

#include "live_ranges.h"

namespace alpa {
namespace {

/// Uses that read the value itself: of those that share a resharding only the first, before which it is
/// done.
std::vector<std::vector<Use>> direct_uses(const ShardingPlan& plan, const Graph& graph,
                                          const NodeClasses& classes) {
  std::vector<std::vector<Use>> uses = uses_of_values(graph);
  std::vector<std::vector<int>> later(uses.size());
  for (const PlannedReshard& r : plan.reshards)
    later[r.value].insert(later[r.value].end(), r.uses.begin() + 1, r.uses.end());
  for (std::size_t v = 0; v < uses.size(); ++v) {
    uses[v].erase(std::remove_if(uses[v].begin(), uses[v].end(),
                                 [&](const Use& use) {
                                   return std::find(later[v].begin(), later[v].end(), use.id) !=
                                              later[v].end() &&
                                          wanted_spec(graph, classes, plan.strategies, plan.mesh, use) !=
                                              plan.specs[v];
                                 }),
                  uses[v].end());
  }
  return uses;
}

}  // namespace

PeakMemory peak_memory(const ShardingPlan& plan, const Graph& graph) {
  const std::vector<LiveRange> ranges = live_ranges(graph, direct_uses(plan, graph, classify(graph)));
  std::vector<std::int64_t> change(graph.nodes.size() + 2, 0);
  const auto add = [&](int from, int to, int value, const ShardingSpec& spec) {
    if (from >= to) return;
    const std::int64_t bytes = shard_bytes(graph.type(value), spec, plan.mesh);
    change[from] += bytes;
    change[to] -= bytes;
  };
  for (int v = 0; v < static_cast<int>(ranges.size()); ++v)
    add(ranges[v].from, ranges[v].to, v, plan.specs[v]);
  for (const PlannedReshard& r : plan.reshards) {
    int first = static_cast<int>(graph.nodes.size()), last = 0;
    for (int use : r.uses) {
      first = std::min(first, point_of_use(graph, use));
      last = std::max(last, point_of_use(graph, use));
    }
    add(first, last + 1, r.value, r.path.steps.back().to);
  }
  PeakMemory peak;
  std::int64_t live = 0;
  for (int point = 0; point <= static_cast<int>(graph.nodes.size()); ++point) {
    live += change[point];
    if (live > peak.bytes) peak = {live, point};
  }
  return peak;
}

}  // namespace alpa
