#include "dive.h"

#include <algorithm>
#include <utility>

namespace alpa::ilp {
namespace {

class Dive {
 public:
  Dive(const Model& model, int attempts)
      : model_(model), attempts_(attempts), nodes_(live_nodes(model)), allowed_(model.nodes.size()) {
    for (int node : nodes_) {
      for (Cost cost : model.nodes[node].costs) allowed_[node].push_back(cost < kNever);
    }
  }

  std::optional<std::vector<int>> run() {
    pending_ = nodes_;
    if (!propagate()) return std::nullopt;
    for (std::size_t k = next_open(0); k < nodes_.size(); k = next_open(decisions_.back().position + 1)) {
      decisions_.push_back({k, cheapest_first(nodes_[k]), 0, removed_.size()});
      if (!decide()) return std::nullopt;
    }
    std::vector<int> choice(model_.nodes.size(), 0);
    for (int node : nodes_) choice[node] = static_cast<int>(first_allowed(node) - allowed_[node].begin());
    return choice;
  }

 private:
  using Strategies = std::vector<char>;
  struct Decision {
    std::size_t position;    ///< in nodes_
    std::vector<int> order;  ///< strategies to try
    std::size_t next;        ///< in order
    std::size_t before;      ///< size of removed_ before it
  };

  Strategies::const_iterator first_allowed(int node) const {
    return std::find(allowed_[node].begin(), allowed_[node].end(), 1);
  }

  /// Position of the next node with a choice left, from `k` on.
  std::size_t next_open(std::size_t k) const {
    while (k < nodes_.size() && std::count(allowed_[nodes_[k]].begin(), allowed_[nodes_[k]].end(), 1) == 1)
      ++k;
    return k;
  }

  /// Carries out the last decision, or another one of those before.
  bool decide() {
    while (!decisions_.empty()) {
      Decision& last = decisions_.back();
      while (last.next < last.order.size()) {
        if (keep_only(nodes_[last.position], last.order[last.next++])) return true;
        undo(last.before);
        if (--attempts_ <= 0) return false;
      }
      decisions_.pop_back();
      if (!decisions_.empty()) undo(decisions_.back().before);
    }
    return false;
  }

  void remove(int node, int strategy) {
    allowed_[node][strategy] = 0;
    removed_.emplace_back(node, strategy);
  }

  void undo(std::size_t size) {
    for (; removed_.size() > size; removed_.pop_back())
      allowed_[removed_.back().first][removed_.back().second] = 1;
  }

  bool keep_only(int node, int strategy) {
    for (int s = 0; s < model_.nodes[node].size(); ++s)
      if (s != strategy && allowed_[node][s]) remove(node, s);
    add_neighbours(node);
    return propagate();
  }

  std::vector<int> cheapest_first(int node) const {
    const ModelNode& n = model_.nodes[node];
    std::vector<Cost> costs = n.costs;
    for (int e : n.edges) {
      const View table = view(model_, e, node);
      const Strategies& others = allowed_[model_.edges[e].other(node)];
      for (int p = 0; p < n.size(); ++p) {
        Cost least = kNever;
        for (int q = 0; q < table.columns; ++q)
          if (others[q]) least = std::min(least, table.at(p, q));
        costs[p] = plus(costs[p], least);
      }
    }
    std::vector<int> order;
    for (int p = 0; p < n.size(); ++p)
      if (allowed_[node][p]) order.push_back(p);
    std::sort(order.begin(), order.end(), [&](int p, int q) { return costs[p] < costs[q]; });
    return order;
  }

  void add_neighbours(int node) {
    for (int e : model_.nodes[node].edges) pending_.push_back(model_.edges[e].other(node));
  }

  /// Rules out what has no allowed partner, until nothing changes. False if a node is left without a
  /// strategy.
  bool propagate() {
    while (!pending_.empty()) {
      const int node = pending_.back();
      pending_.pop_back();
      bool changed = false;
      for (int e : model_.nodes[node].edges) changed |= rule_out(node, e);
      if (first_allowed(node) == allowed_[node].end()) return pending_.clear(), false;
      if (changed) add_neighbours(node);
    }
    return true;
  }

  bool rule_out(int node, int edge) {
    const View table = view(model_, edge, node);
    const Strategies& others = allowed_[model_.edges[edge].other(node)];
    bool changed = false;
    for (int p = 0; p < model_.nodes[node].size(); ++p) {
      if (!allowed_[node][p]) continue;
      bool partner = false;
      for (int q = 0; q < table.columns && !partner; ++q) partner = others[q] && table.at(p, q) < kNever;
      if (!partner) remove(node, p), changed = true;
    }
    return changed;
  }

  const Model& model_;
  int attempts_;
  std::vector<int> nodes_;
  std::vector<Strategies> allowed_;           ///< per node of the model
  std::vector<std::pair<int, int>> removed_;  ///< nodes and strategies, in order
  std::vector<Decision> decisions_;
  std::vector<int> pending_;
};

}  // namespace

std::optional<std::vector<int>> dive(const Model& model, int attempts) {
  return Dive(model, attempts).run();
}

}  // namespace alpa::ilp
