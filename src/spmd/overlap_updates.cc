// src/spmd/overlap_updates.cc — moves optimizer updates beside the backward pass
#include <algorithm>
#include <numeric>
#include <optional>

#include "rewrite.h"
#include "src/ir/members.h"
#include "src/ops/all_ops.h"

namespace alpa::spmd {
namespace {

/// The program as it was, with the readers of its values.
struct Original {
  const Graph& graph;
  std::vector<std::vector<int>> readers;  ///< per value
};

bool is_update(const Node& node) {
  return node.op->members && node.op->members->gradients && node.region == Region::apply;
}

/// True if anything but an update uses one of these values.
bool are_read(const Original& original, const std::vector<int>& values) {
  const auto is_reported = [&](const auto& reports, int value) {
    return std::any_of(reports.begin(), reports.end(),
                       [&](const auto& report) { return report.value == value; });
  };
  return std::any_of(values.begin(), values.end(), [&](int value) {
    return !original.readers[value].empty() || is_reported(original.graph.metrics, value) ||
           is_reported(original.graph.outputs, value);
  });
}

/// The states whose new content update n makes.
std::vector<int> replaced_by(const Graph& graph, int n) {
  std::vector<int> states;
  for (const Update& update : graph.updates)
    if (graph.values[update.value].producer == n) states.push_back(update.input);
  return states;
}

/// The last node that must precede update n: producers of its operands and other readers of the
/// states it replaces. nullopt if n is not an update, if its results are read, or if its gradient
/// comes from other devices, which would have to be waited for.
std::optional<int> ready_after(const Original& original, int n) {
  const Graph& graph = original.graph;
  const Node& node = graph.nodes[n];
  if (!is_update(node) || are_read(original, node.results)) return std::nullopt;
  if (is_collective(graph.producer(node.operands[num_states(node)]))) return std::nullopt;
  int last = -1;
  for (int value : node.operands)
    if (graph.producer(value).op != &ops::input)
      last = std::max(last, graph.values[value].producer);
  for (int state : replaced_by(graph, n))
    for (int reader : original.readers[state])
      if (reader != n) last = std::max(last, reader);
  return last < n ? std::optional(last) : std::nullopt;
}

}  // namespace

SpmdProgram overlap_updates(const SpmdProgram& program) {
  if (program.graph.num_micro_batches > 1) return program;
  const Original original{program.graph, consumers(program.graph)};
  std::vector<Node> nodes = program.graph.nodes, moved;
  std::vector<int> after(nodes.size()), order(nodes.size());
  std::iota(after.begin(), after.end(), 0);
  std::iota(order.begin(), order.end(), 0);
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    const std::optional<int> ready = ready_after(original, n);
    if (!ready) continue;
    after[n] = *ready;
    nodes[n].attributes.set(std::string(kOverlapped), std::int64_t{1});
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return after[a] < after[b]; });
  for (int n : order) moved.push_back(std::move(nodes[n]));
  return with_nodes(program, with_inputs_first(program.graph, moved));
}

}  // namespace alpa::spmd
