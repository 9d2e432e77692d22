// src/ir/early_sums.cc — moves sums over micro-batches to where their addends are made
#include "src/ir/early_sums.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa {
namespace {

constexpr std::size_t kRegions = static_cast<std::size_t>(Region::apply) + 1;

/// The order of the nodes of a step, with its sums early.
class EarlySums {
 public:
  EarlySums(const Graph& graph, const std::vector<Node>& nodes)
      : nodes_(nodes), producers_(graph.values.size(), -1), moves_(nodes.size()) {
    std::vector<int> readers(graph.values.size());
    for (int n = 0; n < size(); ++n) {
      for (int value : nodes[n].results) producers_[value] = n;
      for (int value : nodes[n].operands) ++readers[value];
    }
    std::vector<bool> is_accumulator(graph.values.size());
    for (const Input& input : graph.inputs)
      is_accumulator[input.value] = input.kind == InputKind::accumulator;
    for (const Update& update : graph.updates) {
      if (!is_accumulator[update.input]) continue;
      const int sum = producers_[update.value];
      moves_[producers_[update.input]] = moves_[sum] = true;
      for (int value : nodes[sum].operands) {
        const int made = producers_[value];
        if (made == sum - 1 && readers[value] == 1 && nodes[made].operands.size() == 1)
          moves_[made] = true;
      }
    }
    starts_.fill(-1);
    for (int n = size() - 1; n >= 0; --n)
      if (!moves_[n] && !is_input(n)) starts_[region(n)] = n;
  }

  std::vector<int> order() const {
    std::vector<std::vector<int>> before(nodes_.size()), behind(nodes_.size());
    std::vector<int> place(nodes_.size());  // the node that it stands at
    for (int n = 0; n < size(); ++n) {
      const int start = starts_[region(n)];
      place[n] = moves_[n] && start >= 0 && start < n ? start : n;
      if (place[n] == n) continue;
      for (int value : nodes_[n].operands) place[n] = std::max(place[n], place[producers_[value]]);
      (is_input(n) ? before : behind)[place[n]].push_back(n);
    }
    std::vector<int> order;
    for (int n = 0; n < size(); ++n) {
      order.insert(order.end(), before[n].begin(), before[n].end());
      if (place[n] == n) order.push_back(n);
      order.insert(order.end(), behind[n].begin(), behind[n].end());
    }
    return order;
  }

 private:
  int size() const { return static_cast<int>(nodes_.size()); }
  std::size_t region(int n) const { return static_cast<std::size_t>(nodes_[n].region); }
  bool is_input(int n) const { return nodes_[n].op == &ops::input; }

  const std::vector<Node>& nodes_;
  std::vector<int> producers_;             ///< per value
  std::vector<bool> moves_;                ///< per node
  std::array<int, kRegions> starts_ = {};  ///< the first node that computes and stays; -1: none
};

}  // namespace

void add_early(const Graph& graph, std::vector<Node>& nodes) {
  if (graph.num_micro_batches == 1) return;
  std::vector<Node> ordered;
  for (int n : EarlySums(graph, nodes).order()) ordered.push_back(std::move(nodes[n]));
  nodes = std::move(ordered);
}

}  // namespace alpa
