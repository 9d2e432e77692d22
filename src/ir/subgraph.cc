// src/ir/subgraph.cc — ranges of layers as graphs of their own
#include "src/ir/subgraph.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/lasting.h"
#include "src/ir/op_def.h"
#include "src/ir/rewrite.h"

namespace alpa {
namespace {

/// Per value, whether the step adds it up over its micro-batches.
std::vector<bool> sums_of(const Graph& graph) {
  std::vector<bool> sums(graph.values.size(), false);
  for (const Update& update : graph.updates)
    if (find_input(graph, update.input)->kind == InputKind::accumulator) sums[update.value] = true;
  return sums;
}

}  // namespace

LayerCuts::LayerCuts(const Graph& graph)
    : graph_(graph),
      first_reader_(graph.values.size(), std::numeric_limits<int>::max()),
      last_reader_(graph.values.size(), std::numeric_limits<int>::min()),
      is_sum_(sums_of(graph)),
      lasts_(lasting_values(graph)),
      held_(held_values(graph)) {
  const auto layer_of = [&](int value) { return graph.producer(value).layer; };
  const auto read = [&](int value, int layer) {
    first_reader_[value] = std::min(first_reader_[value], layer);
    last_reader_[value] = std::max(last_reader_[value], layer);
  };
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    for (int value : node.operands) read(value, node.layer);
    if (node.op != &ops::input || !is_scalar_input(graph, node.results[0]))
      of_layer_[node.layer].nodes.push_back(n);
  }
  for (int u = 0; u < static_cast<int>(graph.updates.size()); ++u) {
    const int layer = layer_of(graph.updates[u].input);
    of_layer_[layer].updates.push_back(u);
    read(graph.updates[u].value, layer);
  }
  for (int m = 0; m < static_cast<int>(graph.metrics.size()); ++m)
    of_layer_[layer_of(graph.metrics[m].value)].metrics.push_back(m);
  for (int o = 0; o < static_cast<int>(graph.outputs.size()); ++o)
    of_layer_[layer_of(graph.outputs[o].value)].outputs.push_back(o);
}

std::vector<int> LayerCuts::layers() const {
  std::vector<int> result;
  for (const auto& [layer, members] : of_layer_) result.push_back(layer);
  return result;
}

/// One part while it is cut out. Its graph has values numbered in the order of the whole's.
class LayerCuts::Cut {
 public:
  Cut(const LayerCuts& cuts, int first, int last)
      : cuts_(cuts), whole_(cuts.graph_), first_(first), last_(last) {}

  Subgraph run() && {
    part_.num_micro_batches = whole_.num_micro_batches;
    for (int n : members(&Members::nodes)) nodes_.push_back(whole_.nodes[n]);
    for (const Node& node : nodes_) check_reading(node);
    for (int u : members(&Members::updates)) {
      part_.updates.push_back(whole_.updates[u]);
      read(whole_.updates[u].value, Region::apply);
    }
    for (int m : members(&Members::metrics))
      if (is_inside(whole_.metrics[m].value)) part_.metrics.push_back(whole_.metrics[m]);
    add_boundaries();
    add_inputs();
    add_outputs();
    return numbered();
  }

 private:
  /// Members of one kind of all layers of the part, in the order of the whole graph.
  std::vector<int> members(std::vector<int> Members::*kind) const {
    std::vector<int> result;
    const auto end = cuts_.of_layer_.upper_bound(last_);
    for (auto at = cuts_.of_layer_.lower_bound(first_); at != end; ++at)
      result.insert(result.end(), (at->second.*kind).begin(), (at->second.*kind).end());
    std::sort(result.begin(), result.end());
    return result;
  }

  bool is_inside(int value) const {
    const int layer = whole_.producer(value).layer;
    return first_ <= layer && layer <= last_ && !is_scalar_input(whole_, value);
  }

  void check_reading(const Node& node) {
    for (int value : node.operands) {
      read(value, node.region);
      if (node.region == Region::apply && !is_inside(value)) check_sum(node, value);
    }
  }

  /// A sum over micro-batches has the layout of its accumulator, which is in another part.
  void check_sum(const Node& reader, int value) const {
    require(whole_.num_micro_batches == 1 || !cuts_.is_sum_[value],
            "subgraph: {} \"{}\" of layer {} reads the sum over micro-batches that {} \"{}\" of "
            "layer {} adds up; give both one layer",
            reader.op->name, reader.name, reader.layer, whole_.producer(value).op->name,
            whole_.producer(value).name, whole_.producer(value).layer);
  }

  /// Makes `value` an input of the part if another part gives it. State that forward nodes read is
  /// there for every micro-batch, too.
  void read(int value, Region reader) {
    if (is_inside(value)) return;
    const Input* input = find_input(whole_, value);
    const auto known = boundaries_.find(value);
    if (known != boundaries_.end()) {
      if (input && reader != Region::apply) known->second.region = Region::forward;
      return;
    }
    Node node = whole_.producer(value);
    if (!input || input->kind != InputKind::scalar) {
      const TensorType& type = whole_.type(value);
      const bool always =
          input && (input->kind == InputKind::state || input->kind == InputKind::shared);
      const bool once = always && reader == Region::apply;
      node = {.op = &ops::input,
              .attributes = {{"kind", std::string(name_of(InputKind::boundary))},
                             {"dtype", type.dtype},
                             {"shape", type.shape}},
              .operands = {},
              .results = {value},
              .name = fmt::format("%{}", value),
              .region = once ? Region::apply : node.region};
      if (cuts_.lasts_[value])
        node.attributes.set(std::string(kLastingAttribute),
                            cuts_.held_[value] ? kHeldElsewhere : kComputedElsewhere);
    }
    boundaries_.emplace(value, std::move(node));
  }

  void add_boundaries() {
    std::vector<Node> all;
    for (auto& [value, node] : boundaries_) all.push_back(std::move(node));
    std::move(nodes_.begin(), nodes_.end(), std::back_inserter(all));
    nodes_ = std::move(all);
  }

  void add_inputs() {
    for (const Node& node : nodes_) {
      if (node.op != &ops::input) continue;
      const int value = node.results[0];
      if (is_inside(value) || is_scalar_input(whole_, value))
        part_.inputs.push_back(*find_input(whole_, value));
      else
        part_.inputs.push_back({.value = value, .kind = InputKind::boundary, .name = node.name});
    }
  }

  /// Values that nodes and updates of other parts read.
  void add_outputs() {
    std::vector<int> wanted;
    for (const Node& node : nodes_)
      for (int value : node.results)
        if (is_inside(value) &&
            (cuts_.first_reader_[value] < first_ || last_ < cuts_.last_reader_[value]))
          wanted.push_back(value);
    std::sort(wanted.begin(), wanted.end());
    for (int value : wanted) part_.outputs.push_back({fmt::format("%{}", value), value});
    for (int o : members(&Members::outputs))
      if (is_inside(whole_.outputs[o].value)) part_.outputs.push_back(whole_.outputs[o]);
  }

  /// The part by numbers of its own: `with_nodes` takes time in proportion to the values it knows.
  Subgraph numbered() {
    std::vector<int> values;
    for (const Node& node : nodes_)
      values.insert(values.end(), node.results.begin(), node.results.end());
    std::sort(values.begin(), values.end());
    std::unordered_map<int, int> number;
    for (int value : values) {
      number.emplace(value, static_cast<int>(part_.values.size()));
      part_.values.push_back(whole_.values[value]);
    }
    const auto renumber = [&](int& value) { value = number.at(value); };
    for (Node& node : nodes_) {
      std::for_each(node.operands.begin(), node.operands.end(), renumber);
      std::for_each(node.results.begin(), node.results.end(), renumber);
    }
    for (Input& input : part_.inputs) renumber(input.value);
    for (Update& update : part_.updates) renumber(update.input), renumber(update.value);
    for (Metric& metric : part_.metrics) renumber(metric.value);
    for (Output& output : part_.outputs) renumber(output.value);
    Rewritten rewritten = with_nodes(part_, std::move(nodes_));
    Subgraph result{std::move(rewritten.graph), {}, {}};
    for (int value : rewritten.values) result.values.push_back(values[value]);
    for (const Node& node : result.graph.nodes)
      result.nodes.push_back(whole_.values[result.values[node.results[0]]].producer);
    verify(result.graph);
    return result;
  }

  const LayerCuts& cuts_;
  const Graph& whole_;
  const int first_, last_;
  std::map<int, Node> boundaries_;  ///< inputs for values that other parts give, by value
  std::vector<Node> nodes_;         ///< by values of the whole, until they are numbered
  Graph part_;
};

Subgraph LayerCuts::cut(int first, int last) const {
  require(
      -1 <= first && first <= last && (first >= 0 || last == -1),
      "subgraph: layers {} to {}; give a range of layers from 0, or -1 and -1 for what belongs to "
      "none",
      first, last);
  return Cut(*this, first, last).run();
}

Subgraph subgraph(const Graph& graph, int first, int last) {
  return LayerCuts(graph).cut(first, last);
}

}  // namespace alpa
