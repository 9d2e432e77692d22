// Liveness of a plan
#include "src/plan/evaluation/evaluate.h"

#include <algorithm>

#include "src/ir/lasting.h"

namespace alpa::intra_op {
namespace {

/// Points between which a copy lives.
LivePoints range_of(const PlannedReshard& r, const ShardingSpec& start, const Graph& graph) {
  const auto end = static_cast<int>(graph.nodes.size());
  if (r.once) return {0, end + 1};
  LivePoints range{end, 0};
  for (UseId use : r.uses) {
    const int point = point_of_use(graph, use);
    range.from =
        std::min(range.from, start.is_partial() ? point_of_reduction(graph, r.value, use) : point);
    range.to = std::max(range.to, point + 1);
  }
  return range;
}

/// Last points at which values are read in their own spec: by uses that need it, and to make
/// copies.
std::vector<int> last_direct_reads(const ShardingPlan& plan, const GraphFacts& facts,
                                   const std::vector<ShardingSpec>& starts) {
  const Graph& graph = facts.graph;
  std::vector<std::vector<Use>> uses = facts.uses;
  for (std::size_t v = 0; v < uses.size(); ++v) {
    const auto resharded = [&](const Use& use) {
      return use.source != static_cast<int>(v) || wanted_spec(facts, plan, use) != plan.specs[v];
    };
    uses[v].erase(std::remove_if(uses[v].begin(), uses[v].end(), resharded), uses[v].end());
  }
  std::vector<int> last = last_reads(graph, uses, facts.lifetimes().points);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const PlannedReshard& r = plan.reshards[i];
    const bool reads_accumulator =
        source_of_use(graph, facts.accumulators, r.value, r.uses.front()) != r.value;
    if (reads_accumulator || starts[i] != plan.specs[r.value]) continue;
    const int made = range_of(r, starts[i], graph).from;
    last[r.value] = std::max(last[r.value], starts[i].is_partial() ? made - 1 : made);
  }
  return last;
}

/// The peak at these points, the last one included.
PeakMemory peak_of(const std::vector<LiveBytes>& live, const LivePoints& points) {
  std::vector<std::int64_t> change(points.to + 2, 0);
  for (const LiveBytes& of : live) {
    change[std::min(of.points.from, points.to + 1)] += of.bytes;
    change[std::min(of.points.to, points.to + 1)] -= of.bytes;
  }
  PeakMemory peak;
  std::int64_t bytes = 0;
  for (int point = 0; point <= points.to; ++point) {
    bytes += change[point];
    if (point >= points.from && bytes > peak.bytes) peak = {bytes, point};
  }
  return peak;
}

}  // namespace

PeakMemory peak_memory(const ShardingPlan& plan, const Graph& graph) {
  return peak_memory(plan, GraphFacts(graph));
}

std::vector<LiveBytes> live_bytes(const ShardingPlan& plan, const GraphFacts& facts) {
  const Graph& graph = facts.graph;
  const std::vector<ShardingSpec> starts = starts_of_reshards(plan, facts);
  const std::vector<LivePoints> ranges = live_ranges(graph, facts.classes, facts.lifetimes().points,
                                                     last_direct_reads(plan, facts, starts));
  const int backward = first_backward(graph), end = static_cast<int>(graph.nodes.size());
  const std::vector<bool> kept = kept_values(graph), copied = copied_by_each(graph),
                          sent = sent_values(graph);
  std::vector<LiveBytes> live;
  const auto add = [&](int value, bool is_copy, const LivePoints& points,
                       const ShardingSpec& spec) {
    const bool own = is_copy ? copied[value] && points.to <= end : kept[value];
    const int made = is_copy ? points.from : made_at(graph, value, points);
    const bool is_kept = own && made < backward && points.to > backward;
    const std::int64_t bytes = shard_bytes(graph.type(value), spec, plan.mesh);
    if (!is_copy && sent[value] && !is_kept)
      live.push_back({value, false, {0, end + 1}, kCopiesSent * bytes});
    else if (points.from < points.to)
      live.push_back({value, is_copy, points, bytes, is_kept});
  };
  for (int v = 0; v < static_cast<int>(ranges.size()); ++v) add(v, false, ranges[v], plan.specs[v]);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const PlannedReshard& r = plan.reshards[i];
    add(r.value, true, range_of(r, starts[i], graph), r.path.steps.back().to);
  }
  return live;
}

std::vector<bool> kept_values(const Graph& graph) {
  std::vector<bool> kept = copied_by_each(graph);
  const std::vector<bool> lasting = lasting_values(graph);
  for (std::size_t value = 0; value < kept.size(); ++value)
    if (lasting[value]) kept[value] = false;
  for (const Input& input : graph.inputs)  // loaded by forward and by backward runs
    if (input.kind == InputKind::batch) kept[input.value] = false;
  return kept;
}

std::vector<bool> sent_values(const Graph& graph) {
  std::vector<bool> sent(graph.values.size());
  const bool is_stage =
      graph.num_micro_batches > 1 && std::ranges::any_of(graph.inputs, [](const Input& input) {
        return input.kind == InputKind::boundary;
      });
  const std::vector<bool> lasting = lasting_values(graph);
  for (const Output& output : graph.outputs)
    sent[output.value] =
        is_stage && !lasting[output.value] && graph.producer(output.value).region != Region::apply;
  return sent;
}

std::vector<bool> copied_by_each(const Graph& graph) {
  std::vector<bool> copied(graph.values.size(), true);
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::accumulator) copied[input.value] = false;
  for (const Update& update : graph.updates) copied[update.value] = false;
  return copied;
}

CountedBytes counted_bytes(const ShardingPlan& plan, const Graph& graph) {
  return counted_bytes(plan, GraphFacts(graph));
}

CountedBytes counted_bytes(const ShardingPlan& plan, const GraphFacts& facts) {
  const int apply = first_apply(facts.graph), end = static_cast<int>(facts.graph.nodes.size());
  const std::vector<LiveBytes> live = live_bytes(plan, facts);
  CountedBytes bytes{.alone = peak_of(live, {0, end}).bytes};
  std::vector<LiveBytes> shared;
  for (const LiveBytes& of : live)
    if (of.is_kept)
      bytes.kept += of.bytes;
    else
      shared.push_back(of);
  bytes.passes = peak_of(shared, {0, apply - 1}).bytes;
  bytes.apply = peak_of(live, {apply, end}).bytes;
  return bytes;
}

PeakMemory peak_memory(const ShardingPlan& plan, const GraphFacts& facts) {
  return peak_of(live_bytes(plan, facts), {0, static_cast<int>(facts.graph.nodes.size())});
}

}  // namespace alpa::intra_op
