// src/intra_op/live_ranges.cc — liveness on the unpartitioned graph
#include "live_ranges.h"

#include <algorithm>

#include "alpa/ops/all_ops.h"

namespace alpa {
namespace {

/// Values that the nodes at each point read.
std::vector<std::vector<int>> operands_at_points(const Graph& graph, const std::vector<int>& points) {
  std::vector<std::vector<int>> operands(graph.nodes.size());
  for (std::size_t n = 0; n < points.size(); ++n) {
    std::vector<int>& there = operands[points[n]];
    there.insert(there.end(), graph.nodes[n].operands.begin(), graph.nodes[n].operands.end());
  }
  return operands;
}

/// One of the operands at a point is of the result's type, is no input and is read by nobody later.
bool takes_over_buffer(const Graph& graph, const std::vector<int>& operands, int point,
                       const TensorType& type, const std::vector<int>& last_read) {
  return std::any_of(operands.begin(), operands.end(), [&](int value) {
    return graph.type(value) == type && graph.producer(value).op != &ops::input &&
           last_read[value] == point;
  });
}

/// Per node, whether an update, a metric or an output reads a result of it.
std::vector<bool> reported_nodes(const Graph& graph) {
  std::vector<bool> reported(graph.nodes.size(), false);
  for (const Update& update : graph.updates) reported[graph.values[update.value].producer] = true;
  for (const Metric& metric : graph.metrics) reported[graph.values[metric.value].producer] = true;
  for (const Output& output : graph.outputs) reported[graph.values[output.value].producer] = true;
  return reported;
}

bool same_loop(const Graph& graph, const Node& a, const Node& b) {
  return elementwise_code(a) >= 0 && elementwise_code(b) >= 0 && a.region == b.region &&
         graph.type(a.results[0]).shape == graph.type(b.results[0]).shape;
}

/// Values that are read by an update and by nothing else.
std::vector<bool> new_states(const Graph& graph) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Update& update : graph.updates) result[update.value] = true;
  for (const Node& node : graph.nodes) {
    for (int value : node.operands) result[value] = false;
  }
  for (const Metric& metric : graph.metrics) result[metric.value] = false;
  for (const Output& output : graph.outputs) result[output.value] = false;
  return result;
}

}  // namespace

std::vector<int> points_of_nodes(const Graph& graph) {
  const std::vector<bool> reported = reported_nodes(graph);
  const std::vector<std::vector<int>> readers = consumers(graph);
  std::vector<int> points(graph.nodes.size());
  for (int n = static_cast<int>(points.size()); n-- > 0;) {
    points[n] = n;
    const Node& node = graph.nodes[n];
    if (reported[n] || node.results.size() != 1 || readers[node.results[0]].empty()) continue;
    const std::vector<int>& reading = readers[node.results[0]];
    const int point = points[reading[0]];
    if (std::all_of(reading.begin(), reading.end(), [&](int reader) {
          return points[reader] == point && same_loop(graph, node, graph.nodes[reader]);
        }))
      points[n] = point;
  }
  return points;
}

int point_of_use(const Graph& graph, UseId use) {
  if (use.kind == UseKind::node) return use.index;
  if (use.kind == UseKind::update) return graph.values[graph.updates[use.index].value].producer;
  return static_cast<int>(graph.nodes.size());
}

int point_of_reduction(const Graph& graph, int value, UseId use) {
  const int producer = graph.values[value].producer;
  const bool waits = graph.num_micro_batches > 1 && region_of_use(graph, use) == Region::apply &&
                     graph.nodes[producer].region != Region::apply;
  if (!waits) return producer + 1;
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const Node& node) { return node.region == Region::apply; });
  return static_cast<int>(first - graph.nodes.begin());
}

std::vector<int> last_reads(const Graph& graph, const std::vector<std::vector<Use>>& uses) {
  const std::vector<int> points = points_of_nodes(graph);
  std::vector<int> last(uses.size(), -1);
  for (std::size_t v = 0; v < uses.size(); ++v) {
    for (const Use& use : uses[v]) {
      const bool node = use.id.kind == UseKind::node;
      last[v] = std::max(last[v], node ? points[use.id.index] : point_of_use(graph, use.id));
    }
  }
  return last;
}

std::vector<LivePoints> live_ranges(const Graph& graph, const std::vector<int>& last_read) {
  const int end = static_cast<int>(graph.nodes.size()) + 1;
  const std::vector<bool> new_state = new_states(graph);
  const std::vector<int> points = points_of_nodes(graph);
  const std::vector<std::vector<int>> operands = operands_at_points(graph, points),
                                      readers = consumers(graph);
  std::vector<LivePoints> ranges;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const int n = graph.values[v].producer;
    const Node& node = graph.nodes[n];
    const bool in_place =
        node.op->in_place != InPlace::none &&
        (new_state[v] || takes_over_buffer(graph, operands[n], n, graph.values[v].type, last_read));
    ranges.push_back({in_place ? n + 1 : n, std::max(n, last_read[v]) + 1});
    if (points[n] != n) ranges.back().from = ranges.back().to;
  }
  for (const Input& input : graph.inputs) {
    LivePoints& range = ranges[input.value];
    const bool kept = input.kind == InputKind::state || input.kind == InputKind::accumulator;
    if (kept) range = {0, end};
    if (!kept && !readers[input.value].empty()) range.from = readers[input.value].front();
  }
  return ranges;
}

}  // namespace alpa
