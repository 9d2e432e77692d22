// src/intra_op/live_ranges.cc — liveness on the unpartitioned graph
#include "live_ranges.h"

#include <algorithm>

#include "alpa/ops/all_ops.h"

namespace alpa {
namespace {

/// An operand of the result's type that is no input and is read by nobody later.
bool takes_over_buffer(const Graph& graph, const Node& node, int n, const TensorType& type,
                       const std::vector<int>& last_read) {
  return node.op->in_place && std::any_of(node.operands.begin(), node.operands.end(), [&](int value) {
           return graph.type(value) == type && graph.producer(value).op != &ops::input &&
                  last_read[value] == n;
         });
}

/// Values that are read by an update and by nothing else.
std::vector<bool> new_states(const Graph& graph) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Update& update : graph.updates) result[update.value] = true;
  for (const Node& node : graph.nodes) {
    for (int value : node.operands) result[value] = false;
  }
  for (const Metric& metric : graph.metrics) result[metric.value] = false;
  return result;
}

}  // namespace

int point_of_use(const Graph& graph, int use) {
  const int num_nodes = static_cast<int>(graph.nodes.size()), update = use - num_nodes;
  if (use < num_nodes) return use;
  if (update < static_cast<int>(graph.updates.size()))
    return graph.values[graph.updates[update].value].producer;
  return num_nodes;
}

int point_of_reduction(const Graph& graph, int value, int use) {
  const int producer = graph.values[value].producer;
  const bool waits = graph.num_micro_batches > 1 && region_of_use(graph, use) == Region::apply &&
                     graph.nodes[producer].region != Region::apply;
  if (!waits) return producer + 1;
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const Node& node) { return node.region == Region::apply; });
  return static_cast<int>(first - graph.nodes.begin());
}

std::vector<int> last_reads(const Graph& graph, const std::vector<std::vector<Use>>& uses) {
  std::vector<int> last(uses.size(), -1);
  for (std::size_t v = 0; v < uses.size(); ++v) {
    for (const Use& use : uses[v]) last[v] = std::max(last[v], point_of_use(graph, use.id));
  }
  return last;
}

std::vector<LiveRange> live_ranges(const Graph& graph, const std::vector<int>& last_read) {
  const int end = static_cast<int>(graph.nodes.size()) + 1;
  const std::vector<bool> new_state = new_states(graph);
  std::vector<LiveRange> ranges;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const int n = graph.values[v].producer;
    const Node& node = graph.nodes[n];
    const bool in_place = takes_over_buffer(graph, node, n, graph.values[v].type, last_read) ||
                          (node.op->in_place && new_state[v]);
    ranges.push_back({in_place ? n + 1 : n, std::max(n, last_read[v]) + 1});
  }
  for (const Input& input : graph.inputs) {
    LiveRange& range = ranges[input.value];
    range.from = 0;
    if (input.kind == InputKind::state || input.kind == InputKind::accumulator) range.to = end;
  }
  return ranges;
}

}  // namespace alpa
