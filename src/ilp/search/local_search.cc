// Feasible choices improved, and infeasible ones repaired, by moves of one node or two neighbours
#include "src/ilp/search/local_search.h"

#include <algorithm>
#include <optional>
#include <queue>

#include "alpa/base/error.h"
#include "src/ilp/model/copy_states.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/search/copy_moves.h"

namespace alpa::ilp {
namespace {

/// A sum of costs in which infinite ones count as kForbidden: more forbidden pairs
/// are worse, and of equally many the finite costs decide. 64 bits would overflow at
/// a few hundred forbidden edges.
__extension__ using Sum = __int128;
constexpr Sum kForbidden = Sum{1} << 80;

Sum bounded(Cost cost) { return cost >= kNever ? kForbidden : Sum{cost}; }
void add(Sum& sum, Cost cost) { sum += bounded(cost); }
/// Where the number of forbidden pairs does not matter; finite sums are far below kNever / 2.
void add(Cost& sum, Cost cost) { sum = std::min(sum + cost, kNever); }

bool forbidden(Sum sum) { return sum > kForbidden / 2; }

class LocalSearch {
 public:
  LocalSearch(const Model& model, std::vector<int>& choice, const Deadline& deadline)
      : model_(model),
        choice_(choice),
        deadline_(deadline),
        over_(excess(model, choice)),
        nodes_(live_nodes(model)),
        touched_(model.nodes.size(), 0),
        settled_nodes_(model.nodes.size(), 0),
        settled_edges_(model.edges.size(), 0),
        clock_(1) {}

  const std::vector<int>& nodes() const { return nodes_; }
  const std::vector<Cost>& over() const { return over_; }

  /// Cost of every strategy of `node`, the edge `without` left out.
  template <class Number>
  void price_node(int node, int without, std::vector<Number>& costs) const {
    const ModelNode& n = model_.nodes[node];
    costs.assign(n.costs.size(), 0);
    for (std::size_t s = 0; s < costs.size(); ++s) add(costs[s], n.costs[s]);
    for (int e : n.edges) {
      if (e == without) continue;
      View table = view(model_, e, node);
      int q = choice_[model_.edges[e].other(node)];
      for (int p = 0; p < n.size(); ++p) add(costs[p], table.at(p, q));
    }
    for (int t : n.terms) add_term(model_.terms[t], node, costs);
    deadline_.spend(kTuning.local_search.node_cells +
                    static_cast<double>(costs.size() * (n.edges.size() + 1)));
  }

  /// The cost that each strategy of `node` adds to a shared term, given the other ends.
  template <class Number>
  void add_term(const SharedTerm& term, int node, std::vector<Number>& costs) const {
    std::vector<char> wanted(static_cast<std::size_t>(term.columns), 0);
    for (const SharedEnd& reader : term.readers)
      if (reader.node != node) wanted[reader.classes[choice_[reader.node]]] = 1;
    deadline_.spend(static_cast<double>(costs.size() + wanted.size() + term.readers.size()));
    if (term.source.node == node) {
      std::vector<Number> of_row(static_cast<std::size_t>(term.rows), 0);
      for (int row = 0; row < term.rows; ++row)
        for (int c = 0; c < term.columns; ++c) of_row[row] += wanted[c] ? term.cost(row, c) : 0;
      for (std::size_t s = 0; s < costs.size(); ++s) costs[s] += of_row[term.source.classes[s]];
      return;
    }
    const int row = term.source.classes[choice_[term.source.node]];
    for (std::size_t s = 0; s < costs.size(); ++s) {
      for (const SharedEnd& reader : term.readers) {
        if (reader.node != node) continue;
        char& paid = wanted[reader.classes[s]];
        if (!paid) costs[s] += term.cost(row, reader.classes[s]);
        paid |= 2;
      }
      for (const SharedEnd& reader : term.readers)
        if (reader.node == node) wanted[reader.classes[s]] &= 1;
    }
  }

  bool share_a_term(int a, int b) const {
    const std::vector<int>& theirs = model_.nodes[b].terms;
    return std::any_of(model_.nodes[a].terms.begin(), model_.nodes[a].terms.end(), [&](int t) {
      return std::find(theirs.begin(), theirs.end(), t) != theirs.end();
    });
  }

  void apply_usage(int node, int strategy, int sign) {
    for (const Piece& piece : model_.nodes[node].pieces)
      for (int r = piece.from; piece.amounts[strategy] > 0 && r < piece.to; ++r)
        over_[r] += sign * piece.amounts[strategy];
  }

  void set(int node, int strategy) {
    if (strategy == choice_[node]) return;
    apply_usage(node, choice_[node], -1);
    apply_usage(node, strategy, 1);
    choice_[node] = strategy;
    touch(node);
  }

  bool within(int node) const {
    for (const Piece& piece : model_.nodes[node].pieces)
      for (int r = piece.from; r < piece.to; ++r)
        if (over_[r] > 0) return false;
    return true;
  }

  /// Sets the node if the rows allow it.
  bool try_set(int node, int strategy) {
    int before = choice_[node];
    if (uses_no_more(model_.nodes[node], strategy, before)) return set(node, strategy), true;
    set(node, strategy);
    if (within(node)) return true;
    set(node, before);
    return false;
  }

  /// Of an allowed choice.
  bool improve_node(int node) {
    if (settled_nodes_[node] > touched_[node]) return false;
    price_node(node, -1, small_);
    std::vector<int> order;
    for (int s = 0; s < static_cast<int>(small_.size()); ++s)
      if (small_[s] < small_[choice_[node]]) order.push_back(s);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return small_[a] < small_[b]; });
    if (order.empty()) settled_nodes_[node] = ++clock_;
    return std::any_of(order.begin(), order.end(), [&](int s) { return try_set(node, s); });
  }

  /// Of an allowed choice.
  bool improve_edge(int e) {
    const ModelEdge& edge = model_.edges[e];
    if (settled_edges_[e] > std::max(touched_[edge.a], touched_[edge.b])) return false;
    if (share_a_term(edge.a, edge.b)) return false;
    price_node(edge.a, e, small_);
    price_node(edge.b, e, others_);
    int width = static_cast<int>(others_.size()), p0 = choice_[edge.a], q0 = choice_[edge.b],
        p1 = p0, q1 = q0;
    deadline_.spend(static_cast<double>(edge.costs.size()));
    Cost best = small_[p0] + others_[q0] + edge.costs[p0 * width + q0];
    for (int p = 0; p < static_cast<int>(small_.size()); ++p) {
      if (small_[p] > kNever / 2) continue;  // two infinite costs add up without overflow
      const Cost* row = edge.costs.data() + static_cast<std::ptrdiff_t>(p) * width;
      for (int q = 0; q < width; ++q)
        if (const Cost cost = small_[p] + others_[q] + row[q]; cost < best)
          best = cost, p1 = p, q1 = q;
    }
    if (p1 == p0 && q1 == q0) return settled_edges_[e] = ++clock_, false;
    set(edge.a, p1), set(edge.b, q1);
    if (within(edge.a) && within(edge.b)) return true;
    set(edge.a, p0), set(edge.b, q0);
    return false;
  }

  /// Moves nodes, the cheapest per unit of relief first, until the worst row has slack. Returns how
  /// many; 0 if none relieves it.
  int relieve() {
    const int row = static_cast<int>(std::max_element(over_.begin(), over_.end()) - over_.begin());
    std::priority_queue<Relief, std::vector<Relief>, Dearer> queue;
    for (int node : nodes_) {
      if (deadline_.passed()) return 0;
      if (const std::optional<Relief> relief = best_relief(node, row)) queue.push(*relief);
    }
    int moves = 0;
    while (over_[row] > 0 && !queue.empty()) {
      const int node = queue.top().node;
      queue.pop();
      const std::optional<Relief> relief = best_relief(node, row);  // others have moved since
      if (!relief) continue;
      if (!queue.empty() && Dearer{}(*relief, queue.top())) {
        queue.push(*relief);
        continue;
      }
      set(node, relief->strategy), ++moves;
      if (const std::optional<Relief> more = best_relief(node, row)) queue.push(*more);
    }
    return moves;
  }

  /// Moves every node at an infinite cost to its cheapest strategy.
  void leave_forbidden() {
    for (int node : nodes_) {
      if (deadline_.passed()) return;
      price_node(node, -1, costs_);
      if (forbidden(costs_[choice_[node]]))
        set(node,
            static_cast<int>(std::min_element(costs_.begin(), costs_.end()) - costs_.begin()));
    }
  }

 private:
  /// A move that takes usage from a row.
  struct Relief {
    int node, strategy;
    double rate;  ///< cost per unit
  };
  struct Dearer {
    bool operator()(const Relief& a, const Relief& b) const {
      return a.rate != b.rate ? a.rate > b.rate : a.node > b.node;
    }
  };

  /// Notes a move of the node for all whose costs depend on it.
  void touch(int node) {
    touched_[node] = ++clock_;
    for (int e : model_.nodes[node].edges) touched_[model_.edges[e].other(node)] = clock_;
    for (int t : model_.nodes[node].terms) {
      touched_[model_.terms[t].source.node] = clock_;
      for (const SharedEnd& reader : model_.terms[t].readers) touched_[reader.node] = clock_;
    }
  }

  std::optional<Relief> best_relief(int node, int row) {
    std::optional<Relief> best;
    const auto at_row = [&](const Piece& p) { return p.from <= row && row < p.to; };
    const std::vector<Piece>& pieces = model_.nodes[node].pieces;
    const auto piece = std::find_if(pieces.begin(), pieces.end(), at_row);
    const int present = choice_[node];
    if (piece == pieces.end() || piece->amounts[present] == 0) return best;
    price_node(node, -1, costs_);
    for (int s = 0; s < static_cast<int>(costs_.size()); ++s) {
      const Cost relief = std::min(piece->amounts[present] - piece->amounts[s], over_[row]);
      if (relief <= 0 || forbidden(costs_[s])) continue;
      const double rate =
          static_cast<double>(costs_[s] - costs_[present]) / static_cast<double>(relief);
      if (!best || rate < best->rate) best = Relief{node, s, rate};
    }
    return best;
  }

  const Model& model_;
  std::vector<int>& choice_;
  const Deadline& deadline_;
  std::vector<Cost> over_;
  std::vector<int> nodes_;
  std::vector<Sum> costs_;
  std::vector<Cost> small_, others_;
  /// Numbers of moves and looks: when what a node costs last changed, and when a node or an edge
  /// was last found to have no cheaper choice. One that has not changed since is skipped.
  std::vector<std::int64_t> touched_, settled_nodes_, settled_edges_;
  std::int64_t clock_;
};

/// Calls `move` for each of `items` until the deadline. True if one of them returned true.
template <class Move>
bool sweep(const std::vector<int>& items, const Deadline& deadline, const Move& move) {
  bool changed = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i % kTuning.local_search.items_at_once == 0 && deadline.passed()) break;
    changed |= move(items[i]);
  }
  return changed;
}

}  // namespace

void improve(const Model& model, std::vector<int>& choice, const Deadline& deadline) {
  if (has_copies(model)) return improve_with_copies(model, choice, {}, deadline);
  LocalSearch search(model, choice, deadline);
  const std::vector<int> edges = live_edges(model);
  Cost cost = price(model, choice);
  invariant(cost < kNever, "a choice to be improved is forbidden");
  for (bool changed = true; changed && !deadline.passed();) {
    changed =
        sweep(search.nodes(), deadline, [&](int node) { return search.improve_node(node); }) ||
        sweep(edges, deadline, [&](int e) { return search.improve_edge(e); });
    const Cost before = cost;
    cost = price(model, choice);
    invariant(changed ? cost < before : cost == before, "small moves took the cost from {} to {}",
              before, cost);
  }
}

bool repair(const Model& model, std::vector<int>& choice, int moves, const Deadline& deadline) {
  if (has_copies(model)) return repair_with_copies(model, choice, moves, {}, deadline);
  LocalSearch search(model, choice, deadline);
  if (price(model, choice) >= kNever) search.leave_forbidden();
  auto exceeded = [&] {
    return std::any_of(search.over().begin(), search.over().end(), [](Cost c) { return c > 0; });
  };
  while (exceeded()) {
    if (moves <= 0 || deadline.passed()) return false;
    const int made = search.relieve();
    if (made == 0) return false;
    moves -= made;
  }
  return price(model, choice) < kNever;
}

}  // namespace alpa::ilp
