// Bytes that nodes and copies keep live, as usages over program points; what exceeds a budget
#include "src/search/program/memory_usage.h"

#include <algorithm>

#include "src/ir/input.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/tuning.h"

namespace alpa::intra_op {
MemoryUsage::MemoryUsage(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
                         const MemoryLimit& limit)
    : graph_(graph),
      space_(space),
      mesh_(mesh),
      limit_(limit),
      ranges_(space.graph->lifetimes().values),
      points_(space.graph->lifetimes().points),
      backward_(first_backward(graph)),
      apply_(first_apply(graph)),
      kept_(kept_values(graph)),
      copied_(copied_by_each(graph)),
      sent_(sent_values(graph)) {}

/// True if memory used between these points is in use between a forward and a backward run.
bool MemoryUsage::is_between_passes(int from, int to) const {
  return from < backward_ && to > backward_;
}

/// The same, while other micro-batches are in flight.
bool MemoryUsage::spans_passes(int from, int to) const {
  return limit_.in_flight > 1 && is_between_passes(from, to);
}

/// `kept`: by each micro-batch for its backward run. Several in flight have places for it, which
/// serve nothing else in forward and backward runs.
void MemoryUsage::add(std::vector<ilp::Usage>& usages, ilp::Usage usage, bool kept) const {
  if (kept) {
    usage.from = 0, usage.to = apply_;
    for (std::int64_t& amount : usage.amounts) amount *= limit_.in_flight;
  }
  usages.push_back(std::move(usage));
}

/// Bytes of the whole value, in every micro-batch in flight that has its own.
std::int64_t MemoryUsage::bytes_in_flight(int value) const {
  const LivePoints& range = ranges_[value];
  const bool kept = kept_[value] && spans_passes(made_at(graph_, value, range), range.to);
  return (kept ? limit_.in_flight : 1) * graph_.type(value).bytes();
}

/// Of the step, or a sum over its micro-batches.
bool MemoryUsage::is_state(int value) const {
  const Input* input = find_input(graph_, value);
  return input && (input->kind == InputKind::state || input->kind == InputKind::accumulator);
}

bool MemoryUsage::matters(int value) const {
  if (limit_.state_alone && !is_state(value)) return false;
  return bytes_in_flight(value) > limit_.bytes / search::kTuning.memory_usage.worth_counting;
}

std::int64_t MemoryUsage::bytes_of(int type, int spec) {
  const auto [place, added] = bytes_.try_emplace({type, spec});
  const TypeLayouts& layouts = space_.layouts.of(type);
  if (added) place->second = shard_bytes(layouts.type, layouts.specs[spec], mesh_);
  return place->second;
}

bool MemoryUsage::may_be_partial(int value) const {
  const ValueInfo& info = graph_.values[value];
  if (graph_.nodes[info.producer].operands.empty()) return false;
  const std::vector<ShardingSpec>& specs = space_.layouts_of(info).specs;
  const std::vector<int>& produced = space_.specs_left(info);
  return std::any_of(produced.begin(), produced.end(),
                     [&](int spec) { return specs[spec].is_partial(); });
}

std::vector<ilp::Usage> MemoryUsage::of_results(int node) {
  std::vector<ilp::Usage> usages;
  const NodeStrategies& choices = space_.of(node);
  for (std::size_t i = 0; i < choices.result_specs.size(); ++i) {
    const int value = graph_.nodes[node].results[i];
    LivePoints range = ranges_[value];
    if (may_be_partial(value)) range.to = std::min(range.to, points_[node] + 1);
    if (!matters(value) || range.from >= range.to) continue;
    ilp::Usage usage{range.from, range.to, {}};
    for (int spec : choices.result_specs[i])
      usage.amounts.push_back(bytes_of(choices.result_types[i], spec));
    if (limit_.state_alone && !is_between_passes(range.from, range.to)) continue;
    const bool kept = kept_[value] && spans_passes(made_at(graph_, value, range), range.to);
    if (sent_[value] && !kept) {
      usage.from = 0, usage.to = static_cast<int>(graph_.nodes.size()) + 1;
      for (std::int64_t& amount : usage.amounts) amount *= kCopiesSent;
    }
    add(usages, std::move(usage), kept);
  }
  return usages;
}

std::vector<ilp::Usage> MemoryUsage::of_reading(int value, const std::vector<int>& wanted,
                                                const std::vector<int>& copied, const Use& use) {
  const LivePoints range = range_of(value, {use});
  if (!matters(value) || !may_be_partial(value) || range.from >= range.to) return {};
  const int type = space_.type_of(graph_.values[value]);
  ilp::Usage usage{range.from, range.to, {}};
  for (int spec : wanted) {
    const bool elsewhere = std::binary_search(copied.begin(), copied.end(), spec);
    usage.amounts.push_back(elsewhere ? 0 : bytes_of(type, spec));
  }
  std::vector<ilp::Usage> usages;
  add(usages, std::move(usage), kept_[value] && spans_passes(range.from, range.to));
  return usages;
}

LivePoints MemoryUsage::range_of(int value, const std::vector<Use>& uses) const {
  const bool early = may_be_partial(value);
  LivePoints range{static_cast<int>(graph_.nodes.size()) + 1, 0};
  for (const Use& use : uses) {
    const int point = point_of_use(graph_, use.id);
    range.from = std::min(range.from, early ? point_of_reduction(graph_, value, use.id) : point);
    range.to = std::max(range.to, point + 1);
  }
  return range;
}

std::vector<ilp::Usage> MemoryUsage::of_copy(int value, int spec,
                                             const std::vector<CopyState>& states,
                                             const std::vector<Use>& uses) {
  std::vector<ilp::Usage> usages;
  const std::int64_t bytes = bytes_of(space_.type_of(graph_.values[value]), spec);
  const auto add_state = [&](std::size_t state, Region first, Region last) {
    std::vector<Use> served;
    std::copy_if(uses.begin(), uses.end(), std::back_inserter(served), [&](const Use& use) {
      const Region region = region_of_use(graph_, use.id);
      return first <= region && region <= last;
    });
    const LivePoints range = states[state].once
                                 ? LivePoints{0, static_cast<int>(graph_.nodes.size()) + 1}
                                 : range_of(value, served);
    if (limit_.state_alone && !is_between_passes(range.from, range.to)) return;
    ilp::Usage usage{range.from, range.to, std::vector<std::int64_t>(states.size(), 0)};
    usage.amounts[state] = bytes;
    add(usages, std::move(usage),
        copied_[value] && !states[state].once && spans_passes(range.from, range.to));
  };
  for (std::size_t s = 0; s < states.size(); ++s) {
    for (const CopyLifetime& lifetime : states[s].lifetimes)
      add_state(s, lifetime.first, lifetime.last);
    if (states[s].own && may_be_partial(value)) add_state(s, Region::forward, Region::apply);
  }
  return usages;
}

std::int64_t MemoryUsage::room() const {
  std::int64_t small = 0;
  for (int value = 0; value < static_cast<int>(graph_.values.size()); ++value) {
    if (!matters(value)) small += bytes_in_flight(value);
  }
  return std::max<std::int64_t>(0, limit_.bytes - small);
}

namespace {

struct LiveTensor {
  std::int64_t bytes;  ///< of its smallest shard
  int value;
};

/// Values live at `point`, largest first.
std::vector<LiveTensor> live_at(int point, const Graph& graph, const SearchSpace& space,
                                const DeviceMesh& mesh) {
  const std::vector<LivePoints>& ranges = space.graph->lifetimes().values;
  std::vector<LiveTensor> live;
  for (int v = 0; v < static_cast<int>(ranges.size()); ++v) {
    if (point < ranges[v].from || point >= ranges[v].to) continue;
    const ValueInfo& info = graph.values[v];
    const std::vector<ShardingSpec>& specs = space.layouts_of(info).specs;
    std::int64_t least = info.type.bytes();
    for (int spec : space.specs_left(info))
      least = std::min(least, shard_bytes(info.type, specs[spec], mesh));
    live.push_back({least, v});
  }
  std::stable_sort(live.begin(), live.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  return live;
}

std::string remedies(const Graph& graph, const AutoShardOptions& options, const DeviceMesh& mesh) {
  std::string text = "use more devices, a smaller batch or more micro-batches";
  if (mesh.num_devices() > 1 && options.method != "zero3" && options.method != "shard")
    text += ", or the method \"zero3\" or \"shard\"";
  if (graph.num_micro_batches == 1) return text;
  return text + " (each gradient has an accumulator while there are several micro-batches)";
}

}  // namespace

std::string memory_error(const ilp::Infeasible& infeasible, const Graph& graph,
                         const SearchSpace& space, const DeviceMesh& mesh,
                         const AutoShardOptions& options, std::int64_t smallest) {
  const int end = static_cast<int>(graph.nodes.size()),
            point = std::clamp(static_cast<int>(infeasible.time), 0, end);
  const std::vector<LiveTensor> live = live_at(point, graph, space, mesh);
  std::string largest;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, live.size()); ++i) {
    const Node& producer = graph.producer(live[i].value);
    largest += fmt::format("{}\"{}\" {} ({} bytes per device at least)", i > 0 ? ", " : "",
                           producer.name, to_string(graph.type(live[i].value)), live[i].bytes);
  }
  return fmt::format(
      "method {}: no plan on a {} mesh fits into {} bytes per device: "
      "at least {} bytes are missing at {}, where {} tensors are live; the largest are {}; {}{}",
      options.method, shape_text(mesh), *options.memory_budget_bytes, infeasible.missing_usage,
      point < end ? use_text(graph, {UseKind::node, point}) : "the end of the step", live.size(),
      largest,
      smallest > 0 ? fmt::format("the smallest plan found takes {} bytes; ", smallest) : "",
      remedies(graph, options, mesh));
}

}  // namespace alpa::intra_op
