// Work queues that apply the reductions until none changes anything
#include "src/ilp/reduce/presolve.h"

#include <algorithm>
#include <array>

#include "src/ilp/model/rows.h"
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

/// Work of looking at a node's usages.
double usage_cells(const ModelNode& node) {
  double cells = 0;
  for (const Piece& piece : node.pieces) cells += piece.to - piece.from + node.size();
  return cells;
}

/// Work queues: edges to settle, nodes to simplify, nodes to test for dominance.
class Presolver {
 public:
  Presolver(Model& model, const Options& options, const Deadline& deadline)
      : model_(model),
        on_(options.methods.presolve),
        cells_(options.methods.elimination_cells / kTuning.eliminate.reduction_part),
        deadline_(deadline) {
    node_queued_.resize(model.nodes.size());
    dominance_queued_.resize(model.nodes.size());
    touch_all();
  }

  void run() {
    do {
      reduce_usages();
      do {
        settle();
      } while (!deadline_.passed() && dominate());
    } while (!deadline_.passed() && (reduce_usages() || settle_shared()));
    normalise(model_);
  }

 private:
  void touch_all() {
    for (int i : live_nodes(model_)) touch_node(i);
    for (int e : live_edges(model_)) touch_edge(e);
  }

  void touch_node(int node) {
    if (!node_queued_[node]) node_queued_[node] = 1, nodes_.push_back(node);
    if (!dominance_queued_[node]) dominance_queued_[node] = 1, dominance_.push_back(node);
  }

  void touch_edge(int edge) {
    edge_queued_.resize(model_.edges.size());
    if (!edge_queued_[edge]) edge_queued_[edge] = 1, edges_.push_back(edge);
  }

  /// The node, its edges and its neighbours.
  void touch_around(int node) {
    touch_node(node);
    for (int e : model_.nodes[node].edges) touch_edge(e), touch_node(model_.edges[e].other(node));
  }

  bool keep(int node, const std::vector<int>& kept) {
    if (model_.nodes[node].kept || static_cast<int>(kept.size()) == model_.nodes[node].size())
      return false;
    keep_strategies(model_, node, kept);
    touch_around(node);
    return true;
  }

  /// Empties the queues of edges and of nodes; edges first, because they only make nodes smaller.
  void settle() {
    while (!deadline_.passed()) {
      if (!edges_.empty()) {
        int edge = edges_.back();
        edges_.pop_back();
        edge_queued_[edge] = 0;
        if (model_.edges[edge].alive) settle_edge(edge);
      } else if (!nodes_.empty()) {
        int node = nodes_.back();
        nodes_.pop_back();
        node_queued_[node] = 0;
        if (model_.nodes[node].alive) simplify(node);
      } else {
        return;
      }
    }
  }

  void settle_edge(int index) {
    const ModelEdge& edge = model_.edges[index];
    deadline_.spend(4 * static_cast<double>(edge.costs.size()));
    int a = edge.a, b = edge.b;
    if (on_.arc_consistency && (keep_supported(index, a) || keep_supported(index, b))) return;
    if (on_.projection && project(model_, index)) {
      remove_edge(model_, index);
      touch_node(a), touch_node(b);
      return;
    }
    if (on_.merge) merge_across(index);
  }

  bool keep_supported(int edge, int node) {
    View table = view(model_, edge, node);
    std::vector<int> kept;
    for (int p = 0; p < model_.nodes[node].size(); ++p) {
      bool finite = false;
      for (int q = 0; q < table.columns && !finite; ++q) finite = table.at(p, q) < kNever;
      if (finite && model_.nodes[node].costs[p] < kNever) kept.push_back(p);
    }
    return keep(node, kept);
  }

  void merge_across(int index) {
    int a = model_.edges[index].a, b = model_.edges[index].b;
    auto from_a = function_across(model_, index, a), from_b = function_across(model_, index, b);
    if (model_.nodes[b].kept || !can_take_ends(model_, a, b)) from_a.reset();
    if (model_.nodes[a].kept || !can_take_ends(model_, b, a)) from_b.reset();
    bool prefer_a = model_.nodes[a].edges.size() >= model_.nodes[b].edges.size();
    if (from_a && (prefer_a || !from_b))
      merge_into(index, a, *from_a);
    else if (from_b)
      merge_into(index, b, *from_b);
  }

  void merge_into(int edge, int node, const std::vector<int>& partner) {
    absorb(model_, edge, node, partner);
    touch_around(node);
  }

  void simplify(int index) {
    for (int e : model_.nodes[index].edges)
      deadline_.spend(static_cast<double>(model_.edges[e].costs.size()));
    if (on_.arc_consistency && keep(index, supported_strategies(model_, index))) return;
    std::size_t degree = model_.nodes[index].edges.size();
    if (degree > 2 || model_.nodes[index].kept || !model_.nodes[index].terms.empty()) return;
    std::array<int, 2> neighbours = {-1, -1};
    for (std::size_t d = 0; d < degree; ++d)
      neighbours[d] = model_.edges[model_.nodes[index].edges[d]].other(index);
    bool gone = degree < 2 ? on_.degree_one && eliminate_leaf(model_, index, deadline_)
                           : on_.degree_two && eliminate_between(model_, index, cells_, deadline_);
    if (!gone) return;
    for (int neighbour : neighbours)
      if (neighbour >= 0) touch_node(neighbour);
    if (degree == 2) touch_edge(find_edge(model_, neighbours[0], neighbours[1]));
  }

  /// One sweep over the queued nodes, those with few edges first. Returns true
  /// if a strategy was dropped.
  bool dominate() {
    if (!on_.dominance) return false;
    std::vector<int> queue;
    std::swap(queue, dominance_);
    std::sort(queue.begin(), queue.end(), [&](int i, int j) {
      auto degree = [&](int n) { return model_.nodes[n].edges.size(); };
      return degree(i) != degree(j) ? degree(i) < degree(j) : i < j;
    });
    for (int node : queue) dominance_queued_[node] = 0;
    bool changed = false;
    for (int node : queue) {
      if (deadline_.passed()) return false;
      if (model_.nodes[node].alive && model_.nodes[node].size() > 1)
        changed |= keep(node, undominated_strategies(model_, node, deadline_));
    }
    return changed;
  }

  /// Normal form, strategies that do not fit, rows that cannot bind. Returns true if
  /// anything changed for the rest.
  bool reduce_usages() {
    if (model_.slack.empty()) return false;
    bool changed = false, again = true;
    while (again && !deadline_.passed()) {
      again = false;
      normalise(model_);
      deadline_.spend(static_cast<double>(model_.slack.size()));
      for (int i : live_nodes(model_))
        if (on_.arc_consistency && !model_.nodes[i].pieces.empty() && !deadline_.passed()) {
          deadline_.spend(usage_cells(model_.nodes[i]));
          again |= keep(i, fitting_strategies(model_, i));
        }
      changed |= again;
    }
    if (on_.rows && drop_rows(model_)) {
      normalise(model_);
      for (int i : live_nodes(model_)) touch_node(i);
      changed = true;
    }
    return changed || !nodes_.empty();
  }

  /// Replaces terms that have no two readers of one column left by edges. True if a node lost a
  /// term, so that it may be eliminated.
  bool settle_shared() {
    if (!settle_terms(model_)) return false;
    touch_all();
    return true;
  }

  Model& model_;
  const Presolve& on_;
  std::int64_t cells_;
  const Deadline& deadline_;
  std::vector<int> edges_, nodes_, dominance_;
  std::vector<char> edge_queued_, node_queued_, dominance_queued_;
};

}  // namespace

void presolve(Model& model, const Options& options, const Deadline& deadline) {
  Presolver(model, options, deadline).run();
}

}  // namespace alpa::ilp
