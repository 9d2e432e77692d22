// src/ir/rewrite.cc — renumbering and removal of dead nodes
#include "src/ir/rewrite.h"

#include "alpa/base/error.h"
#include "src/ir/input.h"

namespace alpa {
namespace {

/// Clears the operator of unused nodes, last first.
void drop_unneeded(const Graph& graph, std::vector<Node>& nodes) {
  std::vector<bool> needed = externally_used_values(graph);
  for (std::size_t n = nodes.size(); n-- > 0;) {
    Node& node = nodes[n];
    if (!node.op) continue;
    bool stays = node.op == &ops::input;
    for (int value : node.results) stays = stays || needed.at(value);
    if (!stays) node.op = nullptr;
    if (stays)
      for (int value : node.operands) needed.at(value) = true;
  }
}

}  // namespace

std::vector<bool> externally_used_values(const Graph& graph) {
  std::vector<bool> taken(graph.values.size(), false);
  for (const Update& update : graph.updates) taken[update.value] = true;
  for (const Metric& metric : graph.metrics) taken[metric.value] = true;
  for (const Output& output : graph.outputs) taken[output.value] = true;
  return taken;
}

Rewritten with_nodes(const Graph& graph, std::vector<Node> nodes) {
  drop_unneeded(graph, nodes);
  Rewritten result;
  Graph& after = result.graph;
  std::vector<int> number(graph.values.size(), -1);
  const auto renumber = [&](int& value) {
    invariant(number.at(value) >= 0, "rewriting a graph: value {} is read but not defined", value);
    value = number[value];
  };
  for (Node& node : nodes) {
    if (!node.op) continue;
    for (int& value : node.operands) renumber(value);
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i) {
      result.values.push_back(node.results[i]);
      node.results[i] = number.at(node.results[i]) = static_cast<int>(after.values.size());
      after.values.push_back(
          {graph.type(result.values.back()), static_cast<int>(after.nodes.size()), i});
    }
    after.nodes.push_back(std::move(node));
  }
  after.num_micro_batches = graph.num_micro_batches;
  after.inputs = graph.inputs, after.updates = graph.updates;
  after.metrics = graph.metrics, after.outputs = graph.outputs;
  for (Input& input : after.inputs) renumber(input.value);
  for (Update& update : after.updates) renumber(update.input), renumber(update.value);
  for (Metric& metric : after.metrics) renumber(metric.value);
  for (Output& output : after.outputs) renumber(output.value);
  return result;
}

}  // namespace alpa
