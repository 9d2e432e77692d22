// src/ir/layers.cc — assigns layers to inputs and to nodes that run once per step
#include "src/ir/layers.h"

#include <algorithm>
#include <map>
#include <string>

#include "src/ir/input.h"

namespace alpa {
namespace {

constexpr int kUnknown = -2, kMixed = -3;

/// The layer of all of these as far as it is known; kMixed if there are several.
class Agreement {
 public:
  void add(int layer) {
    if (layer == kUnknown) return;
    layer_ = layer_ == kUnknown || layer_ == layer ? layer : kMixed;
  }
  int layer() const { return layer_; }

 private:
  int layer_ = kUnknown;
};

/// Readers of the results of nodes.
struct Readers {
  std::vector<std::vector<int>> nodes;  ///< per value
  std::vector<int> updated;             ///< per value, the input that it updates, or -1
  std::vector<bool> taken;              ///< per value, by a metric or an output
  StateCopies copies;                   ///< of states
};

Readers readers_of(const Graph& graph) {
  Readers readers{.nodes = consumers(graph),
                  .updated = std::vector<int>(graph.values.size(), -1),
                  .taken = std::vector<bool>(graph.values.size(), false),
                  .copies = copies_by_state(graph)};
  for (const Update& update : graph.updates) readers.updated[update.value] = update.input;
  for (const Metric& metric : graph.metrics) readers.taken[metric.value] = true;
  for (const Output& output : graph.outputs) readers.taken[output.value] = true;
  return readers;
}

/// Nodes whose layer the user's program said.
bool is_marked(const Node& node) { return node.op != &ops::input && node.region != Region::apply; }

/// True if node n adds something to an accumulator.
bool accumulates(const Graph& graph, const Readers& readers, int n) {
  if (!is_marked(graph.nodes[n])) return false;
  for (int value : graph.nodes[n].results)
    if (readers.updated[value] >= 0)
      return find_input(graph, readers.updated[value])->kind == InputKind::accumulator;
  return false;
}

/// Layers of nodes, and of the nodes that produce values.
class Layers {
 public:
  explicit Layers(const Graph& graph) : graph_(graph), of_node_(graph.nodes.size(), kUnknown) {}

  int& of_node(int n) { return of_node_[n]; }
  int& of_value(int value) { return of_node_[graph_.values[value].producer]; }
  std::vector<int> take() && { return std::move(of_node_); }

 private:
  const Graph& graph_;
  std::vector<int> of_node_;
};

/// The layer of an input: that of the forward and backward nodes that read it. A copy that is
/// marked with a layer is read there.
int layer_of_input(const Graph& graph, const Readers& readers, Layers& layers, const Input& input) {
  Agreement agreement;
  const auto add = [&](int value) {
    for (int reader : readers.nodes[value])
      if (is_marked(graph.nodes[reader])) agreement.add(layers.of_node(reader));
  };
  add(input.value);
  const auto [first, last] = readers.copies.equal_range(input.name);
  for (auto copy = first; copy != last; ++copy) {
    const int value = copy->second->value;
    if (const int marked = graph.producer(value).layer; marked >= 0)
      agreement.add(marked);
    else
      add(value);
  }
  return agreement.layer() == kMixed ? -1 : agreement.layer();
}

int layer_of_operands(const Graph& graph, Layers& layers, int n) {
  Agreement agreement;
  for (int value : graph.nodes[n].operands) {
    const Input* input = find_input(graph, value);
    if (!input || input->kind != InputKind::scalar) agreement.add(layers.of_value(value));
  }
  return agreement.layer() == kUnknown ? kMixed : agreement.layer();
}

/// The layer of the results' readers and of the states that they update; for a sum over
/// micro-batches, in region apply.
int layer_of_results(const Graph& graph, const Readers& readers, Layers& layers, int n) {
  const bool sum = accumulates(graph, readers, n);
  Agreement agreement;
  for (int value : graph.nodes[n].results) {
    for (int reader : readers.nodes[value])
      if (!sum || graph.nodes[reader].region == Region::apply)
        agreement.add(layers.of_node(reader));
    if (!sum && readers.updated[value] >= 0) agreement.add(layers.of_value(readers.updated[value]));
    if (readers.taken[value]) agreement.add(-1);
  }
  return sum && agreement.layer() == kUnknown ? layers.of_node(n) : std::max(agreement.layer(), -1);
}

/// Optimizer state takes the layer of its parameter, an accumulator that of the node that adds to
/// it.
void follow_owners(const Graph& graph, Layers& layers) {
  for (const Update& update : graph.updates)
    if (find_input(graph, update.input)->kind == InputKind::accumulator)
      layers.of_value(update.input) = layers.of_value(update.value);
  std::map<std::string, int> by_name;
  for (const Input& input : graph.inputs) by_name[input.name] = layers.of_value(input.value);
  for (const Input& input : graph.inputs)
    if (!input.of.empty()) layers.of_value(input.value) = by_name.at(input.of);
}

}  // namespace

/// First what the program said, then inputs, then what runs once per step: by its operands, and by
/// its readers where the operands do not agree.
std::vector<int> assigned_layers(const Graph& graph) {
  const Readers readers = readers_of(graph);
  Layers layers(graph);
  const int size = static_cast<int>(graph.nodes.size());
  for (int n = 0; n < size; ++n)
    if (is_marked(graph.nodes[n])) layers.of_node(n) = graph.nodes[n].layer;
  for (const Input& input : graph.inputs)
    if (input.kind != InputKind::accumulator)
      layers.of_value(input.value) = layer_of_input(graph, readers, layers, input);
  for (int n = 0; n < size; ++n)
    if (graph.nodes[n].region == Region::apply ||
        (accumulates(graph, readers, n) && layers.of_node(n) < 0))
      layers.of_node(n) = layer_of_operands(graph, layers, n);
  for (int n = size; n-- > 0;)
    if (layers.of_node(n) < -1 || accumulates(graph, readers, n))
      layers.of_node(n) = layer_of_results(graph, readers, layers, n);
  follow_owners(graph, layers);
  return std::move(layers).take();
}

Graph with_layers(Graph graph) {
  const std::vector<int> layers = assigned_layers(graph);
  for (std::size_t n = 0; n < layers.size(); ++n) graph.nodes[n].layer = layers[n];
  return graph;
}

}  // namespace alpa
