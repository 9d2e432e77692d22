// Chains of moves: a node changes, and its neighbours answer
#include "src/ilp/search/chain_moves.h"

#include <algorithm>
#include <cmath>

#include "src/ilp/model/rows.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

class Chains {
 public:
  Chains(const Model& model, std::vector<int>& choice, const std::vector<double>& row_prices,
         const Deadline& deadline)
      : model_(model),
        choice_(choice),
        deadline_(deadline),
        nodes_(live_nodes(model)),
        over_(excess(model, choice)),
        at_(model.nodes.size(), 0),
        link_(model.nodes.size()),
        changed_(model.nodes.size(), 0),
        queued_(model.nodes.size(), 0),
        is_pending_(model.nodes.size(), 0) {
    const RowPrices prices(model, row_prices);
    for (int i : nodes_) {
      const ModelNode& node = model.nodes[i];
      at_[i] = costs_.size();
      for (int s = 0; s < node.size(); ++s) {
        double price = 0;
        for (const Piece& piece : node.pieces)
          price += static_cast<double>(piece.amounts[s]) * prices.of(piece);
        costs_.push_back(node.costs[s] >= kNever ? kForbidden : static_cast<double>(node.costs[s]));
        usages_.push_back(price);
      }
      for (int e : node.edges) link_[i].push_back({view(model, e, i), model.edges[e].other(i)});
    }
  }

  /// Carries out chains that lower the sum of costs and weighted prices of usages, as long as there
  /// are any.
  void improve(double weight) {
    weight_ = weight;
    pending_ = nodes_;
    for (int i : pending_) is_pending_[i] = 1;
    for (std::size_t k = 0; k < pending_.size(); ++k) {
      const int i = pending_[k];
      is_pending_[i] = 0;
      if (!deadline_.passed()) improve_node(i);
    }
  }

 private:
  /// An infinite cost, small enough that sums keep what finite costs add.
  static constexpr double kForbidden = 1e16;
  static constexpr double kRounding = 1e-12;  ///< of a chain's sum, as a part of its largest term
  struct Link {
    View table;
    int other;
  };

  /// What each strategy of the node costs beside the others' present ones.
  void find_effects(int i) {
    const std::size_t size = model_.nodes[i].costs.size();
    effects_.resize(size);
    for (std::size_t s = 0; s < size; ++s)
      effects_[s] = costs_[at_[i] + s] + weight_ * usages_[at_[i] + s];
    for (const Link& link : link_[i]) {
      const int q = choice_[link.other];
      for (std::size_t s = 0; s < size; ++s) {
        const Cost c = link.table.at(static_cast<int>(s), q);
        effects_[s] += c >= kNever ? kForbidden : static_cast<double>(c);
      }
    }
    cells_ += static_cast<double>(size * (link_[i].size() + 1)) + kTuning.chain_moves.move_cells;
  }

  void set(int i, int s) {
    moves_.emplace_back(i, choice_[i]);
    choice_[i] = s;
    changed_[i] = stamp_;
    for (const Link& link : link_[i])
      if (changed_[link.other] != stamp_ && queued_[link.other] != stamp_)
        queued_[link.other] = stamp_, queue_.push_back(link.other);
  }

  void improve_node(int node) {
    for (int s = 0; s < model_.nodes[node].size(); ++s)
      if (s != choice_[node] && chain(node, s)) return;
  }

  void examine_again(int node) {
    if (!is_pending_[node]) is_pending_[node] = 1, pending_.push_back(node);
  }

  /// The node takes a strategy; its neighbours answer, then theirs, each at most once. The chain is
  /// taken back, and false returned, unless the sum falls and the rows are kept.
  bool chain(int node, int s) {
    ++stamp_;
    moves_.clear(), queue_.clear();
    find_effects(node);
    double delta = effects_[s] - effects_[choice_[node]];
    double largest = std::abs(delta);
    set(node, s);
    for (std::size_t k = 0; k < queue_.size() && moves_.size() < kTuning.chain_moves.longest; ++k) {
      const int i = queue_[k];
      queued_[i] = 0;
      find_effects(i);
      const auto best = std::min_element(effects_.begin(), effects_.end());
      const double now = effects_[choice_[i]];
      if (*best >= now) continue;
      delta += *best - now;
      largest = std::max(largest, std::abs(*best - now));
      set(i, static_cast<int>(best - effects_.begin()));
    }
    deadline_.spend(cells_), cells_ = 0;
    if (delta < -0.5 - kRounding * largest && keep_rows()) {
      for (auto [i, old] : moves_) {
        examine_again(i);
        for (const Link& link : link_[i]) examine_again(link.other);
      }
      return true;
    }
    for (auto [i, old] : moves_) choice_[i] = old;
    return false;
  }

  void add_usage(int i, int s, Cost sign) {
    for (const Piece& piece : model_.nodes[i].pieces) {
      const Cost amount = sign * piece.amounts[s];
      if (amount != 0)
        for (int r = piece.from; r < piece.to; ++r) over_[r] += amount;
    }
  }

  bool keep_rows() {
    for (auto [i, old] : moves_) add_usage(i, old, -1), add_usage(i, choice_[i], 1);
    bool keeps = true;
    for (auto [i, old] : moves_)
      for (const Piece& piece : model_.nodes[i].pieces)
        for (int r = piece.from; keeps && r < piece.to; ++r) keeps = over_[r] <= 0;
    if (!keeps)
      for (auto [i, old] : moves_) add_usage(i, choice_[i], -1), add_usage(i, old, 1);
    return keeps;
  }

  const Model& model_;
  std::vector<int>& choice_;
  const Deadline& deadline_;
  const std::vector<int> nodes_;
  std::vector<Cost> over_;
  std::vector<std::size_t> at_;  ///< per node of the model, in costs_ and usages_
  std::vector<std::vector<Link>> link_;
  std::vector<double> costs_, usages_;      ///< per node and strategy; usages as priced
  std::vector<double> effects_;             ///< of the node looked at last
  std::vector<int> changed_, queued_;       ///< per node, the last chain that changed or queued it
  std::vector<std::pair<int, int>> moves_;  ///< of the chain: nodes and their strategies before
  std::vector<int> queue_;                  ///< nodes yet to answer
  std::vector<int> pending_;                ///< nodes from which chains are yet to be tried
  std::vector<char> is_pending_;
  double weight_ = 0, cells_ = 0;
  int stamp_ = 0;  ///< of the chain
};

}  // namespace

void improve_by_chains(const Model& model, std::vector<int>& choice,
                       const std::vector<double>& row_prices, const Deadline& deadline) {
  Chains chains(model, choice, row_prices, deadline);
  std::vector<int> best = choice;
  Cost least = price(model, choice);
  for (const double weight : kTuning.chain_moves.weights) {
    chains.improve(weight);
    if (const Cost cost = price(model, choice); cost < least) least = cost, best = choice;
  }
  choice = std::move(best);
}

}  // namespace alpa::ilp
