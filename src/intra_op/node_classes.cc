// src/intra_op/node_classes.cc — one rule for all nodes that are alike
#include "node_classes.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "alpa/ops/all_ops.h"

namespace alpa {
namespace {

std::size_t hash_of(const Graph& graph, const Node& node) {
  std::size_t hash = std::hash<const void*>()(node.op);
  const auto mix = [&](std::size_t more) { hash = (hash ^ more) * 0x9e3779b97f4a7c15 + (hash >> 29); };
  for (int value : node.operands) {
    mix(static_cast<std::size_t>(graph.type(value).dtype));
    for (std::int64_t extent : graph.type(value).shape) mix(static_cast<std::size_t>(extent));
  }
  for (const auto& [name, value] : node.attributes.items()) {
    if (const auto* text = std::get_if<std::string>(&value)) mix(std::hash<std::string>()(*text));
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      for (std::int64_t number : *list) mix(static_cast<std::size_t>(number));
    }
  }
  return hash;
}

bool belongs(const Graph& graph, const Node& node, const NodeClass& to) {
  return node.op == to.op && node.operands.size() == to.operands.size() &&
         std::equal(node.operands.begin(), node.operands.end(), to.operands.begin(),
                    [&](int value, const TensorType& type) { return graph.type(value) == type; }) &&
         node.attributes == *to.attributes;
}

NodeClass class_of(const Graph& graph, const Node& node) {
  NodeClass result{node.op, &node.attributes, operand_types(graph, node), {}, {}};
  for (int value : node.results) result.results.push_back(graph.type(value));
  result.rule = rule_of(*node.op, {result.operands, node.attributes, node.op});
  return result;
}

}  // namespace

NodeClasses classify(const Graph& graph) {
  NodeClasses result;
  result.of_node.reserve(graph.nodes.size());
  std::unordered_multimap<std::size_t, int> by_hash;
  for (const Node& node : graph.nodes) {
    const std::size_t hash = hash_of(graph, node);
    const auto [begin, end] = by_hash.equal_range(hash);
    const auto known = std::find_if(
        begin, end, [&](const auto& entry) { return belongs(graph, node, result.classes[entry.second]); });
    if (known != end) {
      result.of_node.push_back(known->second);
      continue;
    }
    result.of_node.push_back(static_cast<int>(result.classes.size()));
    by_hash.emplace(hash, result.of_node.back());
    result.classes.push_back(class_of(graph, node));
  }
  return result;
}

double node_seconds(const NodeClass& node, const Strategy& strategy, const DeviceMesh& mesh,
                    const CostModel& model) {
  if (node.op->work == Work::free) return 0;
  const bool input = node.op == &ops::input;
  if (input && node.attributes->string("kind") != name_of(InputKind::batch)) return 0;
  const double seconds = operator_seconds(node.rule, factor_of_axis(strategy, mesh), node.operands,
                                          node.results, mesh, model);
  return input ? 2 * seconds - model.device.launch_seconds : seconds;  // loading reads what it writes
}

}  // namespace alpa
