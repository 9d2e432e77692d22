// Explains why a memory budget cannot be kept
#include "src/intra_op/program/memory_error.h"

#include <algorithm>

namespace alpa::intra_op {
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

std::string remedies(const Graph& graph, const AutoShardOptions& options) {
  std::string text = "use more devices, a smaller batch or more micro-batches";
  if (options.method != "zero3" && options.method != "shard")
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
      remedies(graph, options));
}

}  // namespace alpa::intra_op
