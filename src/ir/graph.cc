// src/ir/graph.cc — look-ups in a graph
#include "alpa/ir/graph.h"

#include <algorithm>
#include <set>

#include "src/ir/op_def.h"

namespace alpa {

std::vector<TensorType> operand_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  types.reserve(node.operands.size());
  for (int value : node.operands) types.push_back(graph.type(value));
  return types;
}

Rule rule_of(const Graph& graph, const Node& node) {
  const std::vector<TensorType> types = operand_types(graph, node);
  return rule_of(*node.op, {types, node.attributes});
}

std::vector<std::vector<int>> consumers(const Graph& graph) {
  std::vector<std::vector<int>> readers(graph.values.size());
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    for (int value : graph.nodes[n].operands)
      if (readers[value].empty() || readers[value].back() != n) readers[value].push_back(n);
  return readers;
}

int runs_per_step(const Graph& graph, const Node& node) {
  return node.region == Region::apply ? 1 : graph.num_micro_batches;
}

const Input* find_input(const Graph& graph, int value) {
  const auto before = [](const Input& input, int v) { return input.value < v; };
  const auto found = std::lower_bound(graph.inputs.begin(), graph.inputs.end(), value, before);
  return found != graph.inputs.end() && found->value == value ? &*found : nullptr;
}

namespace {

std::vector<int> layers_with(const Graph& graph, bool again) {
  std::set<int> numbers;
  for (const Node& node : graph.nodes)
    if (node.remat >= 0 && node.again == again) numbers.insert(node.remat);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

std::vector<int> recomputed_layers(const Graph& graph) { return layers_with(graph, true); }

std::vector<int> remat_layers(const Graph& graph) { return layers_with(graph, false); }

double flops_per_step(const Graph& graph, std::optional<DType> of) {
  double total = 0;
  for (const Node& node : graph.nodes)
    if (!of || (!node.results.empty() && graph.type(node.results[0]).dtype == *of))
      total += flops(rule_of(graph, node)) * runs_per_step(graph, node);
  return total;
}

}  // namespace alpa
