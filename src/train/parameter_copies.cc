// src/train/parameter_copies.cc — states in place of conversions of parameters
#include "parameter_copies.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/ir/input.h"
#include "src/ir/rewrite.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// Which copy of which parameter.
using CopyKey = std::pair<std::string, DType>;

bool is_half(DType dtype) { return dtype == bf16 || dtype == f16; }

/// The copy that a node makes of a parameter in every micro-batch; an empty name: none.
CopyKey converted_by(const Graph& graph, const Node& node) {
  if (node.op != &ops::cast || node.region == Region::apply) return {};
  const Input* input = find_input(graph, node.operands[0]);
  const DType to = graph.type(node.results[0]).dtype;
  if (!input || role_of(*input) != StateRole::parameter || !is_half(to)) return {};
  return {graph.type(input->value).dtype == f32 ? input->name : "", to};
}

bool trains(const Graph& graph) {
  return std::any_of(graph.updates.begin(), graph.updates.end(), [&](const Update& update) {
    return role_of(*find_input(graph, update.input)) == StateRole::parameter;
  });
}

/// The operator that makes a copy of its first result, too; null: there is none.
const OpDef* copying(const OpDef* op) {
  if (op == &ops::multi_tensor_adam) return &ops::multi_tensor_adam_copy;
  if (op == &ops::multi_tensor_sgd) return &ops::multi_tensor_sgd_copy;
  return nullptr;
}

/// The node of a copy's state, without its result; `node` is that of the parameter.
Node copy_node(Node node, const Input& parameter, const TensorType& type) {
  node.name = fmt::format("{}.{}", parameter.name, name_of(type.dtype));
  node.attributes = {{"kind", std::string(name_of(InputKind::state))},
                     {"dtype", type.dtype},
                     {"shape", type.shape},
                     {"init", std::string("copy")},
                     {"a", 0.0},
                     {"b", 0.0}};
  return node;
}

/// Replaces the conversions of `keys` in a graph.
class Copying {
 public:
  Copying(Graph graph, const std::set<CopyKey>& keys) : graph_(std::move(graph)), keys_(keys) {
    for (const Node& node : graph_.nodes) {
      const CopyKey key = converted_by(graph_, node);
      if (!keys.contains(key)) continue;
      int& layer = layers_.try_emplace(key, node.layer).first->second;
      if (layer != node.layer) layer = -1;
    }
  }

  Graph run() && {
    for (Node& node : graph_.nodes) add(std::move(node));
    update_copies();
    for (Node& node : nodes_)
      for (int& value : node.operands) value = replaced(value);
    for (Metric& metric : graph_.metrics) metric.value = replaced(metric.value);
    for (Output& output : graph_.outputs) output.value = replaced(output.value);
    graph_.inputs = std::move(inputs_);
    return with_nodes(graph_, std::move(nodes_)).graph;
  }

 private:
  int new_value(const TensorType& type) {
    graph_.values.push_back({type});
    return static_cast<int>(graph_.values.size()) - 1;
  }

  int replaced(int value) const {
    const auto found = copy_of_value_.find(value);
    return found == copy_of_value_.end() ? value : found->second;
  }

  /// A parameter is followed by its copies.
  void add(Node node) {
    places_.push_back(nodes_.size());
    if (const CopyKey key = converted_by(graph_, node); keys_.contains(key)) {
      copy_of_value_[node.results[0]] = copies_.at(key);
      return;
    }
    nodes_.push_back(std::move(node));
    if (nodes_.back().op != &ops::input) return;
    const Input& input = *find_input(graph_, nodes_.back().results[0]);
    inputs_.push_back(input);
    for (auto key = keys_.lower_bound({input.name, DType{}});
         key != keys_.end() && key->first == input.name; ++key)
      add_copy(input, key->second);
  }

  void add_copy(const Input& parameter, DType dtype) {
    const TensorType type{dtype, graph_.type(parameter.value).shape};
    Node node = copy_node(nodes_[places_.back()], parameter, type);
    const int value = copies_[{parameter.name, dtype}] = new_value(type);
    node.results = {value};
    const auto layer = layers_.find({parameter.name, dtype});
    node.layer = layer == layers_.end() ? -1 : layer->second;
    inputs_.push_back({value, InputKind::state, node.name, parameter.name});
    nodes_.push_back(std::move(node));
  }

  /// Every copy whose parameter is updated.
  void update_copies() {
    const std::vector<Update> updates = graph_.updates;
    for (const Update& update : updates) {
      const std::string& name = find_input(graph_, update.input)->name;
      for (auto copy = copies_.lower_bound({name, DType{}});
           copy != copies_.end() && copy->first.first == name; ++copy)
        graph_.updates.push_back({copy->second, updated_copy(update.value, copy->first.second)});
    }
  }

  /// `value`, the new content of a parameter, in a copy's type.
  int updated_copy(int value, DType dtype) {
    Node& made = nodes_[places_[graph_.values[value].producer]];
    const int copy = new_value({dtype, graph_.type(value).shape});
    if (const OpDef* op = copying(made.op); op && made.results[0] == value) {
      made.op = op;
      made.attributes.set("copy", dtype);
      made.results.push_back(copy);
      return copy;
    }
    Node conversion{&ops::cast, {{"to", dtype}}, {value}, {copy}, made.name + "/cast"};
    conversion.region = Region::apply;
    conversion.layer = made.region == Region::apply ? made.layer : -1;
    nodes_.push_back(std::move(conversion));
    return copy;
  }

  Graph graph_;
  const std::set<CopyKey>& keys_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> places_;  ///< in `nodes_`, of the graph's nodes
  std::vector<Input> inputs_;
  std::map<CopyKey, int> layers_;     ///< of the conversions; -1: of several or none
  std::map<CopyKey, int> copies_;     ///< values
  std::map<int, int> copy_of_value_;  ///< of results of conversions
};

Graph with_copies(Graph graph, const std::set<CopyKey>& keys) {
  return keys.empty() ? graph : Copying(std::move(graph), keys).run();
}

}  // namespace

Graph with_parameter_copies(Graph graph) {
  std::set<CopyKey> keys;
  if (trains(graph))
    for (const Node& node : graph.nodes)
      if (const CopyKey key = converted_by(graph, node); !key.first.empty()) keys.insert(key);
  return with_copies(std::move(graph), keys);
}

bool converts_parameters(const Graph& graph) {
  return trains(graph) && std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
           return !converted_by(graph, n).first.empty();
         });
}

Graph with_parameter_copies_of(const Graph& leader, Graph graph) {
  std::set<CopyKey> keys;
  for (const auto& [name, copy] : copies_by_state(leader))
    keys.insert({name, leader.type(copy->value).dtype});
  return with_copies(std::move(graph), keys);
}

}  // namespace alpa
