// Liveness on the unpartitioned graph
#include "src/plan/facts/live_ranges.h"

#include <algorithm>
#include <numeric>

#include "src/ir/lasting.h"
#include "src/ops/all_ops.h"
#include "src/plan/facts/fusion.h"

namespace alpa::intra_op {
namespace {

/// The first node of the region that is not an input.
int first_of(Region region, const Graph& graph) {
  const auto first = std::ranges::find_if(graph.nodes, [&](const Node& node) {
    return node.region == region && !node.operands.empty();
  });
  return static_cast<int>(first - graph.nodes.begin());
}

/// Values that the nodes at each point read.
std::vector<std::vector<int>> operands_at_points(const Graph& graph,
                                                 const std::vector<int>& points) {
  std::vector<std::vector<int>> operands(graph.nodes.size());
  for (std::size_t n = 0; n < points.size(); ++n) {
    std::vector<int>& there = operands[points[n]];
    there.insert(there.end(), graph.nodes[n].operands.begin(), graph.nodes[n].operands.end());
  }
  return operands;
}

/// An operand whose memory the result may reuse: of the same type, not an input (unless of the
/// batch), not read later and not yet reused. -1 if there is none.
int operand_taken_over(const Graph& graph, const std::vector<int>& operands, int point,
                       const TensorType& type, const std::vector<int>& last_read,
                       const std::vector<bool>& taken) {
  const auto found = std::find_if(operands.begin(), operands.end(), [&](int value) {
    const Input* input = find_input(graph, value);
    return graph.type(value) == type &&
           (input == nullptr || input->kind == InputKind::batch ||
            input->kind == InputKind::shared) &&
           last_read[value] == point && !taken[value];
  });
  return found == operands.end() ? -1 : *found;
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

std::vector<int> points_of_nodes(const Graph& graph, const NodeClasses& classes) {
  std::vector<int> points(graph.nodes.size());
  std::iota(points.begin(), points.end(), 0);
  for (const std::vector<int>& loop : fusion_groups(graph))
    for (int n : loop) points[n] = loop.back();
  const std::vector<std::vector<int>> readers = consumers(graph);
  for (std::size_t n = points.size(); n-- > 0;)
    if (classes.share_of(static_cast<int>(n)).vanishes)
      for (int reader : readers[graph.nodes[n].results[0]])
        points[n] = std::max(points[n], points[reader]);
  return points;
}

int first_backward(const Graph& graph) { return first_of(Region::backward, graph); }

int first_apply(const Graph& graph) { return first_of(Region::apply, graph); }

int made_at(const Graph& graph, int value, const LivePoints& points) {
  return find_input(graph, value) ? points.from : graph.values[value].producer;
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
  return waits ? first_apply(graph) : producer + 1;
}

std::vector<int> last_reads(const Graph& graph, const std::vector<std::vector<Use>>& uses,
                            const std::vector<int>& points) {
  std::vector<int> last(uses.size(), -1);
  for (std::size_t v = 0; v < uses.size(); ++v) {
    for (const Use& use : uses[v]) {
      if (use.source != static_cast<int>(v)) continue;  // it reads the accumulator
      const bool node = use.id.kind == UseKind::node;
      last[v] = std::max(last[v], node ? points[use.id.index] : point_of_use(graph, use.id));
    }
  }
  return last;
}

std::vector<LivePoints> live_ranges(const Graph& graph, const NodeClasses& classes,
                                    const std::vector<int>& points,
                                    const std::vector<int>& last_read) {
  const int end = static_cast<int>(graph.nodes.size()) + 1;
  const std::vector<bool> new_state = new_states(graph);
  const std::vector<std::vector<int>> operands = operands_at_points(graph, points),
                                      readers = consumers(graph);
  std::vector<bool> taken(graph.values.size(), false);
  std::vector<LivePoints> ranges;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const auto& [type, n, index] = graph.values[v];
    const int point = points[n], to = std::max(point, last_read[v]) + 1;
    const LoopShare& share = classes.share_of(n);
    const bool exists = !share.vanishes && (share.writes.empty() || share.writes[index]);
    bool in_place = exists && alpa::in_place(graph.nodes[n]) != InPlace::none;
    if (in_place && !new_state[v]) {
      const int operand = operand_taken_over(graph, operands[point], point, type, last_read, taken);
      in_place = operand >= 0;
      if (in_place) taken[operand] = true;
    }
    ranges.push_back({!exists ? to : in_place ? point + 1 : point, to});
  }
  const std::vector<bool> lasting = lasting_values(graph);
  for (const Input& input : graph.inputs) {
    LivePoints& range = ranges[input.value];
    const bool kept = input.kind == InputKind::state || input.kind == InputKind::accumulator ||
                      (input.kind == InputKind::boundary && lasting[input.value]);
    if (kept) range = {0, end};
    if (!kept && !readers[input.value].empty()) range.from = readers[input.value].front();
  }
  return ranges;
}

}  // namespace alpa::intra_op
