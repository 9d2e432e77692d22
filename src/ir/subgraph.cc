// src/ir/subgraph.cc — a range of layers as a graph of its own
#include "src/ir/subgraph.h"

#include <map>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/rewrite.h"

namespace alpa {
namespace {

class Cut {
 public:
  Cut(const Graph& whole, int first, int last) : whole_(whole), inside_(whole.nodes.size()) {
    for (std::size_t n = 0; n < inside_.size(); ++n)
      inside_[n] = first <= whole.nodes[n].layer && whole.nodes[n].layer <= last;
    for (const Input& input : whole.inputs)
      if (input.kind == InputKind::scalar) inside_[producer(input.value)] = false;
  }

  Subgraph run() && {
    part_.num_micro_batches = whole_.num_micro_batches;
    part_.values = whole_.values;
    for (std::size_t n = 0; n < inside_.size(); ++n)
      if (inside_[n]) check_reading(whole_.nodes[n]);
    for (const Update& update : whole_.updates)
      if (is_inside(update.input))
        part_.updates.push_back(update), read(update.value, Region::apply);
    for (const Metric& metric : whole_.metrics)
      if (is_inside(metric.value)) part_.metrics.push_back(metric);
    std::vector<Node> nodes;
    for (const auto& [value, node] : boundaries_) nodes.push_back(node);
    for (std::size_t n = 0; n < inside_.size(); ++n)
      if (inside_[n]) nodes.push_back(whole_.nodes[n]);
    add_inputs(nodes);
    add_outputs();
    return numbered(with_nodes(part_, std::move(nodes)));
  }

 private:
  int producer(int value) const { return whole_.values[value].producer; }
  bool is_inside(int value) const { return inside_[producer(value)]; }

  void check_reading(const Node& node) {
    for (int value : node.operands) {
      read(value, node.region);
      if (node.region == Region::apply && !is_inside(value)) check_sum(node, value);
    }
  }

  /// A sum over micro-batches has the layout of its accumulator, which is in another part.
  void check_sum(const Node& reader, int value) const {
    if (whole_.num_micro_batches == 1) return;
    for (const Update& update : whole_.updates)
      require(
          update.value != value || find_input(whole_, update.input)->kind != InputKind::accumulator,
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
    }
    boundaries_.emplace(value, std::move(node));
  }

  void add_inputs(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (node.op != &ops::input) continue;
      const Input* input = find_input(whole_, node.results[0]);
      const bool boundary =
          !inside_[producer(node.results[0])] && !(input && input->kind == InputKind::scalar);
      if (boundary)
        part_.inputs.push_back(
            {.value = node.results[0], .kind = InputKind::boundary, .name = node.name});
      else
        part_.inputs.push_back(*input);
    }
  }

  /// Values that nodes and updates of other parts read.
  void add_outputs() {
    std::vector<bool> wanted(whole_.values.size(), false);
    for (std::size_t n = 0; n < inside_.size(); ++n)
      if (!inside_[n])
        for (int value : whole_.nodes[n].operands) wanted[value] = true;
    for (const Update& update : whole_.updates)
      if (!is_inside(update.input)) wanted[update.value] = true;
    for (std::size_t value = 0; value < wanted.size(); ++value)
      if (wanted[value] && is_inside(static_cast<int>(value)))
        part_.outputs.push_back({fmt::format("%{}", value), static_cast<int>(value)});
    for (const Output& output : whole_.outputs)
      if (is_inside(output.value)) part_.outputs.push_back(output);
  }

  Subgraph numbered(Rewritten rewritten) const {
    Subgraph result{std::move(rewritten.graph), {}, std::move(rewritten.values)};
    for (const Node& node : result.graph.nodes)
      result.nodes.push_back(producer(result.values[node.results[0]]));
    verify(result.graph);
    return result;
  }

  const Graph& whole_;
  std::vector<bool> inside_;
  std::map<int, Node> boundaries_;  ///< inputs for values that other parts give, by value
  Graph part_;                      ///< with the values of the whole
};

}  // namespace

Subgraph subgraph(const Graph& graph, int first, int last) {
  require(
      -1 <= first && first <= last && (first >= 0 || last == -1),
      "subgraph: layers {} to {}; give a range of layers from 0, or -1 and -1 for what belongs to none",
      first, last);
  return Cut(graph, first, last).run();
}

}  // namespace alpa
