// src/compile/trace.cc — the graph of a step, with the layers that its plan is made of
#include "trace.h"

#include <algorithm>
#include <limits>
#include <map>

#include "alpa/base/error.h"
#include "src/base/work.h"
#include "src/ir/input.h"
#include "src/ir/layers.h"
#include "src/ir/op_def.h"
#include "src/ir/stages.h"
#include "src/search/stages/cluster_layers.h"
#include "src/train/parameter_copies.h"

namespace alpa {
namespace {

/// `graph`, traced with a layer per node, with these layers of its forward nodes, and backward
/// nodes in the layers of theirs.
Graph with_layers_of_forward_nodes(Graph graph, const std::vector<int>& layers) {
  std::map<int, int> layer_of;  // by the number of a forward node
  for (std::size_t n = 0; n < layers.size(); ++n)
    if (layers[n] >= 0 && graph.nodes[n].layer >= 0) layer_of[graph.nodes[n].layer] = layers[n];
  for (Node& node : graph.nodes) {
    const auto found = layer_of.find(node.layer);
    node.layer = found == layer_of.end() ? -1 : found->second;
  }
  return graph;
}

std::vector<int> layers_of_nodes(const Graph& graph) {
  std::vector<int> layers;
  for (const Node& node : graph.nodes) layers.push_back(node.layer);
  return layers;
}

/// Forward nodes of a model by operator and name, in order; without sums over micro-batches, which
/// a step of one micro-batch lacks.
using ForwardNodes = std::map<std::pair<const OpDef*, std::string>, std::vector<int>>;

ForwardNodes forward_nodes(const Graph& graph) {
  std::vector<bool> is_sum(graph.nodes.size());
  for (const Update& update : graph.updates)
    if (find_input(graph, update.input)->kind == InputKind::accumulator)
      is_sum[graph.values[update.value].producer] = true;
  ForwardNodes found;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    if (const Node& node = graph.nodes[n];
        node.region == Region::forward && node.op != &ops::input && !is_sum[n])
      found[{node.op, node.name}].push_back(n);
  return found;
}

/// The layer of each state, by the nodes that read it.
std::map<std::string, int> layers_of_state(const Graph& graph) {
  const Graph layered = with_layers(graph);
  std::map<std::string, int> layers;
  for (const Input& input : layered.inputs)
    if (input.kind == InputKind::state) layers[input.name] = layered.producer(input.value).layer;
  return layers;
}

/// Whether the layers that `graph` is marked with have the state where `leader` has it.
bool has_state_of(const Graph& leader, const Graph& graph) {
  const std::map<std::string, int> leading = layers_of_state(leader);
  for (const auto& [name, layer] : layers_of_state(graph)) {
    const auto found = leading.find(name);
    if (found != leading.end() && found->second != layer) return false;
  }
  return num_layers(graph) == num_layers(leader);
}

/// Per node, the layer in which `leader` has the state that it reads; -1: none, or of several.
std::vector<int> layers_by_state(const Graph& leader, const Graph& graph) {
  const std::map<std::string, int> leading = layers_of_state(leader);
  std::vector<int> layers(graph.nodes.size(), -1);
  for (std::size_t n = 0; n < layers.size(); ++n)
    for (int value : graph.nodes[n].operands) {
      const Input* input = find_input(graph, value);
      if (!input || input->kind != InputKind::state) continue;
      const auto found = leading.find(input->name);
      if (found != leading.end()) layers[n] = std::max(layers[n], found->second);
    }
  return layers;
}

/// The layers in which `leader` has the forward nodes of `graph`. What reads state is where that
/// is. Other nodes of one name count if both have as many: otherwise it is not known which is
/// which. None is behind what reads it, or before what it reads.
std::vector<int> layers_of(const Graph& leader, const Graph& graph) {
  std::vector<int> layers(graph.nodes.size(), -1);
  const ForwardNodes leading = forward_nodes(leader);
  for (const auto& [key, nodes] : forward_nodes(graph)) {
    const auto found = leading.find(key);
    if (found == leading.end() || found->second.size() != nodes.size()) continue;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      layers[nodes[i]] = leader.nodes[found->second[i]].layer;
  }
  const std::vector<int> by_state = layers_by_state(leader, graph);
  std::vector<int> last(layers.size(), std::numeric_limits<int>::max());  // that readers allow
  for (std::size_t n = layers.size(); n-- > 0;) {
    if (graph.nodes[n].region != Region::forward) continue;
    if (by_state[n] >= 0) layers[n] = last[n] = std::min(last[n], by_state[n]);
    layers[n] = std::min(layers[n], last[n]);
    for (int value : graph.nodes[n].operands) {
      int& before = last[graph.values[value].producer];
      before = std::min(before, last[n]);
    }
  }
  for (std::size_t n = 0; n < layers.size(); ++n)
    if (graph.nodes[n].region == Region::forward)
      for (int value : graph.nodes[n].operands)
        layers[n] = std::max(layers[n], layers[graph.values[value].producer]);
  return layers;
}

}  // namespace

Graph trace(const TrainingStep& step, const TraceOptions& tracing) {
  Graph graph = step.trace(tracing);
  constexpr std::size_t kPasses = 4;  // layers, gradients, updates, regions
  spend_nodes(kPasses * graph.nodes.size());
  return step.keeps_copies ? with_parameter_copies(std::move(graph)) : graph;
}

Graph trace(const TrainingStep& step, const MethodOptions& method) {
  const int micro_batches = method.options.num_micro_batches.value();
  const auto* automatic = std::get_if<AutoLayers>(&method.options.layers);
  if (method.kind != MethodKind::pipeline || !automatic) return trace(step, micro_batches);
  Graph graph = trace(step, {micro_batches, /*per_node=*/true});
  const std::vector<int> layers =
      inter_op::cluster_layers(graph, automatic->count, automatic->tolerance);
  return with_layers_of_forward_nodes(std::move(graph), layers);
}

Graph trace(const TrainingStep& step, int num_micro_batches, const std::vector<int>& layers,
            const std::string& origin) {
  const Graph marked = trace(step, num_micro_batches);
  if (layers_of_nodes(marked) == layers) return marked;
  const Graph graph = trace(step, {num_micro_batches, /*per_node=*/true});
  require(
      layers.size() == graph.nodes.size(),
      "plan {}: layers: found those of {} nodes, but the step has {} with {} micro-batches; plan "
      "the step again",
      origin, layers.size(), graph.nodes.size(), num_micro_batches);
  return with_layers_of_forward_nodes(graph, layers);
}

Graph trace_like(const Graph& leader, const TrainingStep& step, int num_micro_batches) {
  Graph graph = trace(step, {num_micro_batches, /*per_node=*/true});
  const auto is_forward = [](const Node& node) {
    return node.region == Region::forward && node.op != &ops::input;
  };
  std::vector<int> layers(graph.nodes.size(), -1);
  auto leading = leader.nodes.begin();
  for (std::size_t n = 0; n < layers.size(); ++n) {
    if (!is_forward(graph.nodes[n])) continue;
    leading = std::find_if(leading, leader.nodes.end(), is_forward);
    require(leading != leader.nodes.end() && leading->op == graph.nodes[n].op,
            "step: node {} is none of the same step that computes other layers again",
            graph.nodes[n].name);
    layers[n] = (leading++)->layer;
  }
  return with_layers_of_forward_nodes(std::move(graph), layers);
}

Graph trace_following(const CompiledStep& leader, const TrainingStep& given,
                      int num_micro_batches) {
  const TrainingStep step =
      given.chooses_remat ? with_remat(given, recomputed_layers(leader.graph)) : given;
  const auto traced = [&](const TraceOptions& tracing) {
    return with_parameter_copies_of(leader.graph, step.trace(tracing));
  };
  const Graph marked = traced(num_micro_batches);
  if (leader.plan.stages.size() == 1 || has_state_of(leader.graph, marked)) return marked;
  const Graph graph = traced({num_micro_batches, /*per_node=*/true});
  return with_layers_of_forward_nodes(graph, layers_of(leader.graph, graph));
}

}  // namespace alpa
