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

class Assignment {
 public:
  explicit Assignment(const Graph& graph)
      : graph_(graph),
        readers_(consumers(graph)),
        updated_(graph.values.size(), -1),
        taken_(graph.values.size(), false),
        layers_(graph.nodes.size(), kUnknown) {
    for (const Update& update : graph.updates) updated_[update.value] = update.input;
    for (const Metric& metric : graph.metrics) taken_[metric.value] = true;
    for (const Output& output : graph.outputs) taken_[output.value] = true;
  }

  std::vector<int> run() {
    const int size = static_cast<int>(layers_.size());
    for (int n = 0; n < size; ++n)
      if (is_marked(graph_.nodes[n])) layers_[n] = graph_.nodes[n].layer;
    for (const Input& input : graph_.inputs)
      if (input.kind != InputKind::accumulator) of_value(input.value) = layer_of_model(input.value);
    for (int n = 0; n < size; ++n)
      if (graph_.nodes[n].region == Region::apply || (accumulates(n) && layers_[n] < 0))
        layers_[n] = layer_of_operands(n);
    for (int n = size; n-- > 0;)
      if (layers_[n] < -1 || accumulates(n)) layers_[n] = layer_of_results(n);
    follow();
    return std::move(layers_);
  }

 private:
  int& of_value(int value) { return layers_[graph_.values[value].producer]; }

  /// Whether node n adds something to an accumulator.
  bool accumulates(int n) const {
    if (!is_marked(graph_.nodes[n])) return false;
    for (int value : graph_.nodes[n].results)
      if (updated_[value] >= 0)
        return find_input(graph_, updated_[value])->kind == InputKind::accumulator;
    return false;
  }

  bool is_marked(const Node& node) const {
    return node.op != &ops::input && node.region != Region::apply;
  }

  /// The layer of an input: that of the forward and backward nodes that read it.
  int layer_of_model(int value) {
    Agreement agreement;
    for (int reader : readers_[value])
      if (is_marked(graph_.nodes[reader])) agreement.add(layers_[reader]);
    return agreement.layer() == kMixed ? -1 : agreement.layer();
  }

  int layer_of_operands(int n) {
    Agreement agreement;
    for (int value : graph_.nodes[n].operands) {
      const Input* input = find_input(graph_, value);
      if (!input || input->kind != InputKind::scalar) agreement.add(of_value(value));
    }
    return agreement.layer() == kUnknown ? kMixed : agreement.layer();
  }

  /// The layer of the results' readers and of the states that they update; for a sum over
  /// micro-batches, in region apply.
  int layer_of_results(int n) {
    const bool sum = accumulates(n);
    Agreement agreement;
    for (int value : graph_.nodes[n].results) {
      for (int reader : readers_[value])
        if (!sum || graph_.nodes[reader].region == Region::apply) agreement.add(layers_[reader]);
      if (!sum && updated_[value] >= 0) agreement.add(of_value(updated_[value]));
      if (taken_[value]) agreement.add(-1);
    }
    return sum && agreement.layer() == kUnknown ? layers_[n] : std::max(agreement.layer(), -1);
  }

  /// Optimizer state takes the layer of its parameter, an accumulator that of
  /// the node that adds to it.
  void follow() {
    for (const Update& update : graph_.updates)
      if (find_input(graph_, update.input)->kind == InputKind::accumulator)
        of_value(update.input) = of_value(update.value);
    std::map<std::string, int> by_name;
    for (const Input& input : graph_.inputs) by_name[input.name] = of_value(input.value);
    for (const Input& input : graph_.inputs)
      if (!input.of.empty()) of_value(input.value) = by_name.at(input.of);
  }

  const Graph& graph_;
  const std::vector<std::vector<int>> readers_;
  std::vector<int> updated_;  ///< per value, the input that it updates, or -1
  std::vector<bool> taken_;   ///< by a metric or an output
  std::vector<int> layers_;
};

}  // namespace

Graph with_layers(const Graph& graph) {
  Graph result = graph;
  const std::vector<int> layers = Assignment(graph).run();
  for (std::size_t n = 0; n < layers.size(); ++n) result.nodes[n].layer = layers[n];
  return result;
}

}  // namespace alpa
