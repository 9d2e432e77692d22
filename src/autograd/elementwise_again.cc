// src/autograd/elementwise_again.cc — elementwise results computed again in the backward pass
#include "elementwise_again.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/rewrite.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

constexpr std::size_t kMostNodes = 8;  // that one result is computed again by

bool is_elementwise(const Node& node) {
  return elementwise_code(node) >= 0 && node.results.size() == 1;
}

/// True for nodes that keep results for gradients: of the forward pass, or of a layer that is
/// computed again.
bool is_early(const Node& node) { return node.region == Region::forward || node.again; }

/// True for nodes that read what was kept.
bool is_gradient(const Node& node) { return node.region == Region::backward && !node.again; }

class ElementwiseAgain {
 public:
  ElementwiseAgain(Graph& graph, bool layer_per_node)
      : graph_(graph),
        layer_per_node_(layer_per_node),
        is_kept_(externally_used_values(graph)),
        is_candidate_(graph.values.size()),
        copy_layer_(graph.values.size(), kNoCopy),
        copies_(graph.values.size(), -1) {
    find_candidates();
    choose();
  }

  std::vector<Node> nodes() {
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) note_layers(graph_.nodes[n]);
    std::vector<Node> nodes;
    for (Node node : graph_.nodes) {
      if (is_gradient(node))
        for (int& value : node.operands)
          if (chosen_.contains(value)) value = computed_again(value, nodes);
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  bool any() const { return !chosen_.empty(); }

 private:
  static constexpr int kNoCopy = -2;

  const Node& producer(int value) const { return graph_.producer(value); }

  bool is_sum(int value) const {
    const Input* input = find_input(graph_, value);
    return input && input->kind == InputKind::accumulator;
  }

  /// Sums over micro-batches may have changed when gradients run: what reads them is not repeated.
  bool is_early_elementwise(int value) const {
    const Node& node = producer(value);
    return is_early(node) && is_elementwise(node) &&
           std::ranges::none_of(node.operands, [&](int operand) { return is_sum(operand); });
  }

  /// True if no stage may end between the nodes: what one reads of the other is not sent.
  bool are_together(const Node& a, const Node& b) const {
    return layer_per_node_ || a.layer == b.layer;
  }

  /// A value is kept if gradients, updates or layers that are computed again read it; a candidate
  /// if only elementwise nodes of its layer's gradients do.
  void find_candidates() {
    std::vector<bool> is_read(graph_.values.size());
    for (const Node& node : graph_.nodes)
      for (const int value : node.operands) {
        if (node.region == Region::forward || (node.again && producer(value).again)) continue;
        is_read[value] = true;
        if (!is_gradient(node) || !is_elementwise(node) || !are_together(node, producer(value)))
          is_kept_[value] = true;
      }
    for (std::size_t value = 0; value < is_read.size(); ++value) {
      is_candidate_[value] = is_read[value] && !is_kept_[value] && is_early_elementwise(value) &&
                             graph_.type(value).rank() > 1;
      is_kept_[value] = is_kept_[value] || is_read[value];
    }
  }

  bool is_kept_anyway(int value) const { return is_kept_[value] && !is_candidate_[value]; }

  /// True if a copy of `reader` reads the value as it is, not a copy of it.
  bool is_leaf(int value, const Node& reader) const {
    return graph_.type(value).rank() == 0 || is_kept_anyway(value) ||
           !is_early_elementwise(value) || !are_together(producer(value), reader);
  }

  /// True for what a copy of `reader` reads at no cost: scalars, state, and what its layer keeps.
  bool is_free(int value, const Node& reader) const {
    const Input* input = find_input(graph_, value);
    return graph_.type(value).rank() == 0 || (input && input->kind == InputKind::state) ||
           (is_kept_anyway(value) && are_together(producer(value), reader));
  }

  /// What computes a result again: elementwise nodes, from values that are free and others.
  struct Cone {
    std::set<int> results, roots;
  };

  void extend(int value, Cone& cone) const {
    if (cone.results.size() > kMostNodes || !cone.results.insert(value).second) return;
    const Node& node = producer(value);
    for (const int operand : node.operands)
      if (!is_leaf(operand, node))
        extend(operand, cone);
      else if (!is_free(operand, node))
        cone.roots.insert(operand);
  }

  /// Candidates made of free values alone, and those that take more bytes together than the one
  /// value which would have to be kept for all of them.
  void choose() {
    std::map<int, std::vector<int>> made_of;  // by root
    for (int value = 0; value < std::ssize(graph_.values); ++value) {
      if (!is_candidate_[value]) continue;
      Cone cone;
      extend(value, cone);
      if (cone.results.size() > kMostNodes || cone.roots.size() > 1) continue;
      if (cone.roots.empty())
        chosen_.insert(value);
      else
        made_of[*cone.roots.begin()].push_back(value);
    }
    for (const auto& [root, values] : made_of) {
      std::int64_t bytes = 0;
      for (const int value : values) bytes += graph_.type(value).bytes();
      if (bytes > graph_.type(root).bytes()) chosen_.insert(values.begin(), values.end());
    }
  }

  /// A copy is in the last layer that reads it: the backward pass comes there first.
  void note_layers(const Node& node) {
    if (is_gradient(node)) {
      for (const int value : node.operands)
        if (chosen_.contains(value)) copy_layer_[value] = std::max(copy_layer_[value], node.layer);
    } else if (is_elementwise(node) && copy_layer_[node.results[0]] != kNoCopy) {
      const int layer = copy_layer_[node.results[0]];
      for (const int value : node.operands)
        if (!is_leaf(value, node)) copy_layer_[value] = std::max(copy_layer_[value], layer);
    }
  }

  /// The copy of a value; appends it, and what it is made of, unless it is there.
  int computed_again(int value, std::vector<Node>& nodes) {
    if (copies_[value] >= 0) return copies_[value];
    Node copy = producer(value);
    copy.region = Region::backward;
    copy.layer = copy_layer_[value];
    copy.remat = -1, copy.again = false;
    copy.name += ".again";
    for (int& operand : copy.operands)
      if (!is_leaf(operand, producer(value))) operand = computed_again(operand, nodes);
    copies_[value] = copy.results[0] = static_cast<int>(graph_.values.size());
    graph_.values.push_back(graph_.values[value]);
    nodes.push_back(std::move(copy));
    return copies_[value];
  }

  Graph& graph_;
  const bool layer_per_node_;
  std::vector<bool> is_kept_, is_candidate_;  ///< by value
  std::set<int> chosen_;
  std::vector<int> copy_layer_, copies_;  ///< by value; kNoCopy, -1: it is not computed again
};

}  // namespace

Graph with_elementwise_again(Graph graph, bool layer_per_node) {
  ElementwiseAgain again(graph, layer_per_node);
  return again.any() ? with_nodes(graph, again.nodes()).graph : std::move(graph);
}

}  // namespace alpa
