// src/intra_op/live_ranges.cc — liveness on the unpartitioned graph
#include "live_ranges.h"

#include <algorithm>

#include "alpa/ops/all_ops.h"

namespace alpa {
namespace {

int last_point(const Graph& graph, const std::vector<Use>& uses, int otherwise) {
  int last = otherwise;
  for (const Use& use : uses) last = std::max(last, point_of_use(graph, use.id));
  return last;
}

/// An operand of the result's type that is no input and is read by nobody later.
bool takes_over_buffer(const Graph& graph, const Node& node, int n, const TensorType& type,
                       const std::vector<std::vector<Use>>& uses) {
  return node.op->in_place && std::any_of(node.operands.begin(), node.operands.end(), [&](int value) {
           return graph.type(value) == type && graph.producer(value).op != &ops::input &&
                  last_point(graph, uses[value], -1) == n;
         });
}

bool only_updates(const Graph& graph, const std::vector<Use>& uses) {
  const int num_nodes = static_cast<int>(graph.nodes.size());
  return !uses.empty() && std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    return use.id >= num_nodes && use.id < num_nodes + static_cast<int>(graph.updates.size());
  });
}

}  // namespace

int point_of_use(const Graph& graph, int use) {
  const int num_nodes = static_cast<int>(graph.nodes.size()), update = use - num_nodes;
  if (use < num_nodes) return use;
  if (update < static_cast<int>(graph.updates.size()))
    return graph.values[graph.updates[update].value].producer;
  return num_nodes;
}

std::vector<LiveRange> live_ranges(const Graph& graph, const std::vector<std::vector<Use>>& uses) {
  const int end = static_cast<int>(graph.nodes.size()) + 1;
  std::vector<LiveRange> ranges;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const int n = graph.values[v].producer;
    const Node& node = graph.nodes[n];
    const bool in_place = takes_over_buffer(graph, node, n, graph.values[v].type, uses) ||
                          (node.op->in_place && only_updates(graph, uses[v]));
    ranges.push_back({in_place ? n + 1 : n, last_point(graph, uses[v], n) + 1});
  }
  for (const Input& input : graph.inputs) {
    LiveRange& range = ranges[input.value];
    range.from = 0;
    if (input.kind == InputKind::state || input.kind == InputKind::accumulator) range.to = end;
  }
  return ranges;
}

}  // namespace alpa
