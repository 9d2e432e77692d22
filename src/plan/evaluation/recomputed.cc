// Prices of rematerialised layers
#include "src/plan/evaluation/evaluate.h"

#include <algorithm>
#include <map>
#include <set>

#include "alpa/base/text.h"
#include "src/ir/op_def.h"

namespace alpa::intra_op {
namespace {

constexpr std::size_t kMaxNames = 3;

/// "blocks.0.up" of "blocks.0.up/einsum.again".
std::string scope_of(const Node& node) {
  return node.name.substr(0, std::min(node.name.rfind('/'), node.name.rfind(".again")));
}

bool only_again(const Graph& graph, const PlannedReshard& reshard) {
  return std::all_of(reshard.uses.begin(), reshard.uses.end(), [&](UseId use) {
    return use.kind == UseKind::node && graph.nodes[use.index].again;
  });
}

/// The value whose memory `value` is.
int stored(const Graph& graph, int value) {
  while (graph.producer(value).op->alias) value = graph.producer(value).operands[0];
  return value;
}

}  // namespace

std::set<int> recomputed_values(const GraphFacts& facts) {
  const Graph& graph = facts.graph;
  std::set<int> values;
  for (const Node& node : graph.nodes)
    for (int value : node.operands) {
      const int kept = stored(graph, value), producer = graph.values[kept].producer;
      if (!node.again && graph.nodes[producer].again && !facts.classes.share_of(producer).vanishes)
        values.insert(kept);
    }
  return values;
}

std::vector<RecomputedLayer> price_recomputed(const ShardingPlan& plan, const Graph& graph,
                                              const cost::CostModel& model) {
  if (recomputed_layers(graph).empty()) return {};
  const GraphFacts facts(graph);
  const PartSeconds seconds = part_seconds(plan, facts, model);
  std::map<int, RecomputedLayer> layers;
  std::map<int, std::string> last;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.again) continue;
    RecomputedLayer& layer = layers[node.remat];
    layer.number = node.remat;
    layer.seconds += seconds.nodes[n];
    if (layer.nodes.empty()) layer.nodes = scope_of(node);
    last[node.remat] = scope_of(node);
  }
  for (std::size_t r = 0; r < plan.reshards.size(); ++r) {
    const PlannedReshard& reshard = plan.reshards[r];
    const Node& producer = graph.producer(reshard.value);
    if (producer.again)
      layers[producer.remat].seconds += seconds.reshards[r];
    else if (only_again(graph, reshard))
      layers[graph.nodes[reshard.uses.front().index].remat].seconds += seconds.reshards[r];
  }
  for (int value : recomputed_values(facts))
    layers[graph.producer(value).remat].bytes +=
        shard_bytes(graph.type(value), plan.specs[value], plan.mesh);
  std::vector<RecomputedLayer> result;
  for (auto& [number, layer] : layers) {
    if (last[number] != layer.nodes) layer.nodes += " to " + last[number];
    result.push_back(std::move(layer));
  }
  return result;
}

std::string recomputed_text(const std::vector<RecomputedLayer>& layers, std::size_t of) {
  if (layers.empty()) return {};
  double seconds = 0;
  std::int64_t bytes = 0;
  std::string names;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    seconds += layers[i].seconds;
    bytes += layers[i].bytes;
    if (i < kMaxNames) names += (i > 0 ? ", " : "") + layers[i].nodes;
  }
  if (layers.size() > kMaxNames) names += fmt::format(" and {} more", layers.size() - kMaxNames);
  return fmt::format("{} of {} layers, {}; {} of a micro-batch are not kept: {}", layers.size(), of,
                     seconds_text(seconds), bytes_text(static_cast<double>(bytes)), names);
}

}  // namespace alpa::intra_op
