// src/ir/stages.cc — assigns nodes to the stages of a pipeline
#include "src/ir/stages.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/layers.h"
#include "src/ir/op_def.h"
#include "src/ir/rewrite.h"

namespace alpa {
namespace {

bool is_input(const Node& node) { return node.op == &ops::input; }
bool is_constant(const Node& node) { return node.operands.empty() && !is_input(node); }

/// Stages of the nodes, of any region or of this one, that give a node its operands; without scalar
/// inputs and unknown ones.
std::vector<int> stages_of_operands(const Graph& graph, const Node& node,
                                    std::optional<Region> region = {}) {
  std::vector<int> stages;
  for (int value : node.operands) {
    const Node& producer = graph.producer(value);
    if (producer.layer >= 0 && (!region || producer.region == *region) &&
        !is_scalar_input(graph, value))
      stages.push_back(producer.layer);
  }
  return stages;
}

int first_of(const std::vector<int>& stages, int otherwise) {
  return stages.empty() ? otherwise : *std::min_element(stages.begin(), stages.end());
}
int last_of(const std::vector<int>& stages, int otherwise) {
  return stages.empty() ? otherwise : *std::max_element(stages.begin(), stages.end());
}

/// The stage of a backward node in no layer: the first from which a gradient comes to it, or else,
/// where gradients begin, the last whose forward values it reads; -1: it reads nothing of a stage.
/// What computes a forward node again is on the last stage of its operands, like that one.
int backward_stage(const Graph& graph, const Node& node) {
  if (node.again) return last_of(stages_of_operands(graph, node), -1);
  const int first = first_of(stages_of_operands(graph, node, Region::backward), -1);
  return first >= 0 ? first : last_of(stages_of_operands(graph, node, Region::forward), -1);
}

/// Forward nodes in no layer that read nothing of a stage, such as the one-hot form of labels: the
/// stage that reads them first. Backward ones: the last stage.
void assign_rest(Graph& graph, const std::vector<std::vector<int>>& readers, int last) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (is_input(*node) || node->region == Region::apply || node->layer >= 0) continue;
    std::vector<int> stages;
    for (int result : node->results)
      for (int reader : readers[result])
        if (graph.nodes[reader].region == node->region && graph.nodes[reader].layer >= 0)
          stages.push_back(graph.nodes[reader].layer);
    node->layer = first_of(stages, node->region == Region::forward ? 0 : last);
  }
}

/// Forward and backward nodes, but of inputs only copies that are marked with a layer.
void assign_model(Graph& graph, const std::vector<std::vector<int>>& readers,
                  const StateCopies& copies, const std::vector<int>& stage_of_layer) {
  std::vector<bool> marked(graph.nodes.size(), false);
  for (const auto& [state, copy] : copies) {
    const int n = graph.values[copy->value].producer;
    marked[n] = graph.nodes[n].layer >= 0;
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    if ((is_input(node) && !marked[n]) || node.region == Region::apply)
      node.layer = -1;
    else if (node.layer >= 0)
      node.layer = stage_of_layer.at(node.layer);
    else if (node.region == Region::forward)
      node.layer = last_of(stages_of_operands(graph, node), -1);
    else
      node.layer = backward_stage(graph, node);
  }
  assign_rest(graph, readers, *std::max_element(stage_of_layer.begin(), stage_of_layer.end()));
}

/// Inputs that several stages read: where forward nodes read them first; copies and optimizer
/// state beside their parameter.
void assign_inputs(Graph& graph, const std::vector<std::vector<int>>& readers,
                   const StateCopies& copies) {
  std::map<std::string, int> of_state;
  for (const Input& input : graph.inputs) {
    Node& node = graph.nodes[graph.values[input.value].producer];
    std::vector<int> own = readers[input.value];  // of the input, or of a copy of it
    const auto [first, last] = copies.equal_range(input.name);
    for (auto copy = first; copy != last; ++copy) {
      const std::vector<int>& of_copy = readers[copy->second->value];
      own.insert(own.end(), of_copy.begin(), of_copy.end());
    }
    std::vector<int> stages;
    for (int reader : own)
      if (graph.nodes[reader].region == Region::forward)
        stages.push_back(graph.nodes[reader].layer);
    for (int reader : own)
      if (stages.empty()) stages = {graph.nodes[reader].layer};
    const bool owned = !input.of.empty() && input.of != input.name;
    if (node.layer < 0) node.layer = owned ? of_state[input.of] : first_of(stages, -1);
    of_state[input.name] = node.layer;
  }
}

/// Sums over micro-batches stay with the accumulator, which takes their stage.
void assign_accumulators(Graph& graph) {
  for (const Update& update : graph.updates)
    if (find_input(graph, update.input)->kind == InputKind::accumulator)
      graph.nodes[graph.values[update.input].producer].layer = graph.producer(update.value).layer;
}

/// Stages of the node's operands that stay where they are: state and sums over micro-batches.
std::vector<int> stages_of_kept(const Graph& graph, const Node& node,
                                const std::vector<bool>& is_sum) {
  std::vector<int> stages;
  for (int value : node.operands) {
    const Input* input = find_input(graph, value);
    if (is_sum[value] || (input && input->kind == InputKind::state))
      stages.push_back(graph.producer(value).layer);
  }
  return stages;
}

/// Stages of operands that are more than one number: the norm of all gradients, a
/// number, goes to the gradients.
std::vector<int> stages_of_tensors(const Graph& graph, const Node& node) {
  std::vector<int> stages;
  for (int value : node.operands)
    if (graph.type(value).rank() > 0 && graph.producer(value).layer >= 0)
      stages.push_back(graph.producer(value).layer);
  return stages;
}

/// Nodes of region apply, and the rest of the inputs.
void assign_apply(Graph& graph) {
  std::vector<bool> is_sum(graph.values.size(), false);
  for (const Update& update : graph.updates)
    is_sum[update.value] = find_input(graph, update.input)->kind == InputKind::accumulator;
  for (Node& node : graph.nodes) {
    if (node.layer >= 0 || is_input(node)) continue;
    const int by_any = last_of(stages_of_operands(graph, node), 0);
    const int by_tensors = last_of(stages_of_tensors(graph, node), by_any);
    node.layer = first_of(stages_of_kept(graph, node, is_sum), by_tensors);
  }
  for (Node& node : graph.nodes) node.layer = std::max(node.layer, 0);
}

void check_order(const Graph& graph) {
  for (const Node& node : graph.nodes)
    for (int value : node.operands) {
      const Node& producer = graph.producer(value);
      require(node.region != Region::forward || is_input(producer) || is_constant(producer) ||
                  producer.layer <= node.layer,
              "stages: {} \"{}\" of stage {} reads {} \"{}\" of the later stage {}; mark pipeline "
              "boundaries in the order in which the model computes",
              node.op->name, node.name, node.layer, producer.op->name, producer.name,
              producer.layer);
      require(!producer.again || producer.layer >= node.layer,
              "stages: {} \"{}\" of stage {} reads {} \"{}\", which the earlier stage {} computes "
              "again later; give the rematerialised layer one stage",
              node.op->name, node.name, node.layer, producer.op->name, producer.name,
              producer.layer);
      require(node.region != Region::backward || producer.region != Region::backward ||
                  is_constant(producer) || producer.layer >= node.layer,
              "stages: {} \"{}\" of stage {} reads {} \"{}\" of the earlier stage {}, whose "
              "backward pass comes later: a gradient of a gradient; give it a plan of one stage",
              node.op->name, node.name, node.layer, producer.op->name, producer.name,
              producer.layer);
    }
}

/// Makes constants again on the stages that read them.
Graph with_own_constants(Graph graph) {
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  std::map<int, int> constants;               // nodes of the graph, and where they are in `nodes`
  std::map<std::pair<int, int>, int> copies;  // by value and stage
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    Node node = std::move(graph.nodes[n]);
    for (int& value : node.operands) {
      const auto constant = constants.find(graph.values[value].producer);
      if (constant == constants.end() || nodes[constant->second].layer == node.layer) continue;
      const Node& source = nodes[constant->second];
      int& copy = copies.try_emplace({value, node.layer}, -1).first->second;
      if (copy < 0) {
        copy = static_cast<int>(graph.values.size());
        graph.values.push_back(graph.values[value]);
        Node constant = source;
        constant.layer = node.layer;
        constant.region = node.region;
        constant.results = {copy};
        nodes.push_back(std::move(constant));
      }
      value = copy;
    }
    if (is_constant(node)) constants.emplace(n, static_cast<int>(nodes.size()));
    nodes.push_back(std::move(node));
  }
  return with_nodes(graph, std::move(nodes)).graph;
}

}  // namespace

int num_layers(const Graph& graph) {
  int layers = 1;
  for (const Node& node : graph.nodes)
    if (node.region == Region::forward) layers = std::max(layers, node.layer + 1);
  return layers;
}

Graph with_stages(Graph graph, const std::vector<int>& stage_of_layer) {
  invariant(static_cast<int>(stage_of_layer.size()) >= num_layers(graph),
            "stages of {} layers for a graph of {}", stage_of_layer.size(), num_layers(graph));
  const std::vector<std::vector<int>> readers = consumers(graph);
  const StateCopies copies = copies_by_state(graph);
  assign_model(graph, readers, copies, stage_of_layer);
  check_order(graph);
  const std::vector<int> layers = assigned_layers(graph);  // of what the model does not say
  for (std::size_t n = 0; n < layers.size(); ++n)
    if (graph.nodes[n].layer < 0) graph.nodes[n].layer = layers[n];
  assign_inputs(graph, readers, copies);
  assign_accumulators(graph);
  assign_apply(graph);
  return with_own_constants(std::move(graph));
}

Graph with_stage_per_layer(Graph graph) {
  std::vector<int> stages(num_layers(graph));
  std::iota(stages.begin(), stages.end(), 0);
  return with_stages(std::move(graph), stages);
}

}  // namespace alpa
