#pragma once
/// Costs of a plan, independent of the search that found it: seconds of its parts, bytes, and what
/// rematerialised layers take and free.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alpa/plan/sharding_plan.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/facts/graph_facts.h"
#include "src/plan/facts/live_ranges.h"

namespace alpa::intra_op {

/// As `evaluate` in plan.h.
PlanCost evaluate(const ShardingPlan& plan, const GraphFacts& facts, const cost::CostModel& model);

/// Seconds per step of every node (its cuts among them) and of every resharding.
struct PartSeconds {
  std::vector<double> nodes, reshards;
};
PartSeconds part_seconds(const ShardingPlan& plan, const GraphFacts& facts,
                         const cost::CostModel& model);

/// Seconds of one run of `path` from spec `from`.
double path_seconds(const TensorType& type, const ShardingSpec& from, const ReshardPath& path,
                    const DeviceMesh& mesh, const cost::ReshardModel& model);

/// Bytes one device sends in one run.
double path_sent_bytes(const TensorType& type, const ShardingSpec& from, const ReshardPath& path,
                       const DeviceMesh& mesh);

/// `spec` after `step`, whose fields are in range; nothing if the step cannot be taken from there.
std::optional<ShardingSpec> spec_after(ShardingSpec spec, const ReshardStep& step);

/// Spec from which each resharding of `plan` starts: that in which its uses find the value.
std::vector<ShardingSpec> starts_of_reshards(const ShardingPlan& plan, const GraphFacts& facts);

/// How often a resharding runs in one step: once, or as often as its first use.
int runs_of(const PlannedReshard& reshard, const Graph& graph);

/// Peak of live bytes, on the device with the largest shards.
struct PeakMemory {
  std::int64_t bytes = 0;
  int point = 0;  ///< a node, or the number of nodes for the end of the step
};

/// A value in its own layout, or a copy of it in another, and the points between which it is in
/// the memory of the device with the largest shards.
struct LiveBytes {
  int value = -1;
  bool is_copy = false;
  LivePoints points = {};
  std::int64_t bytes = 0;
  bool is_kept = false;  ///< by every micro-batch, from its forward to its backward run
};
std::vector<LiveBytes> live_bytes(const ShardingPlan& plan, const GraphFacts& facts);

/// Largest sum over the points of the step, and the first point where it is reached: values from
/// where they are made to the last use that reads them or reshards them, copies from their first
/// use to their last, or always if made once per step. Operators in place count once
/// (live_ranges.h).
PeakMemory peak_memory(const ShardingPlan& plan, const GraphFacts& facts);
PeakMemory peak_memory(const ShardingPlan& plan, const Graph& graph);

/// Per value, whether every micro-batch has its own: not state, nor sums over micro-batches.
std::vector<bool> kept_values(const Graph& graph);

/// Copies of what a stage sends and does not keep for its backward run: a run makes the next one
/// while the last is under way.
inline constexpr int kCopiesSent = 2;

/// Per value, whether a stage sends it to another one in every micro-batch.
std::vector<bool> sent_values(const Graph& graph);

/// Per value, whether every micro-batch makes its own copies in other specs, except those made once
/// per step: of state, too, but not of sums over micro-batches.
std::vector<bool> copied_by_each(const Graph& graph);

/// Bytes of the device with the largest shards, by the number of micro-batches in flight. Several
/// have places of their own, from the first forward to the last backward run, for what lives from a
/// forward to its backward run: values, and copies even of state. One alone shares these places
/// with whatever lives before and after.
struct CountedBytes {
  std::int64_t alone = 0;   ///< peak with one micro-batch in flight
  std::int64_t kept = 0;    ///< of each of several, in places of its own
  std::int64_t passes = 0;  ///< peak of forward and backward runs, without `kept`
  std::int64_t apply = 0;   ///< peak of region apply
  std::int64_t with(int in_flight) const {
    return in_flight == 1 ? alone : std::max(passes + in_flight * kept, apply);
  }
};

/// Counted as values are live, without what lowering adds: padding, scratch, gaps, messages.
CountedBytes counted_bytes(const ShardingPlan& plan, const GraphFacts& facts);
CountedBytes counted_bytes(const ShardingPlan& plan, const Graph& graph);

/// Results of nodes computed again that gradients read, each once: a view is the value whose memory
/// it is. Without what a loop keeps nothing of.
std::set<int> recomputed_values(const GraphFacts& facts);

/// Per layer that is computed again, by number. Seconds: of the nodes that do so, with reshardings
/// of their results and those that only they read. Bytes: of the results that gradients read, which
/// a backward pass without rematerialisation would find kept.
std::vector<RecomputedLayer> price_recomputed(const ShardingPlan& plan, const Graph& graph,
                                              const cost::CostModel& model);

/// The same in a line: "3 of 12 layers, 240 us; 12.0 MiB of a micro-batch are not kept: norm to
/// head, …", of so many layers that could be; empty if there is none.
std::string recomputed_text(const std::vector<RecomputedLayer>& layers, std::size_t of);

/// A plan with the facts and the prices that its explanation reads. `plan` and `model` must outlive
/// it, and so must the graph.
struct PricedPlan {
  PricedPlan(const ShardingPlan& p, const Graph& g, const cost::CostModel& m)
      : plan(p),
        graph(g),
        model(m),
        facts(g, nullptr, nullptr, std::ranges::any_of(p.reshards, &PlannedReshard::once)),
        seconds(part_seconds(p, facts, m)) {}

  const ShardingPlan& plan;
  const Graph& graph;
  const cost::CostModel& model;
  const GraphFacts facts;
  const PartSeconds seconds;
};

/// As in plan.h.
std::string repeated_work_text(const PricedPlan& priced);

}  // namespace alpa::intra_op
