#include "eliminate.h"

#include <algorithm>
#include <queue>
#include <set>

namespace alpa::ilp {
namespace {

/// One component's elimination as planned: nodes in order, and the neighbours of each when its turn comes.
struct Order {
  std::vector<int> nodes;
  std::vector<std::vector<int>> scopes;
};

/// The graph of a component while it is eliminated symbolically.
class Planner {
 public:
  Planner(const Model& model, std::vector<std::set<int>>& neighbours)
      : model_(model), neighbours_(neighbours) {}

  /// Elimination order by smallest table, or nothing if it exceeds the budget.
  bool plan(const std::vector<int>& component, double cells, Order& order) {
    for (int node : component) push(node);
    double steps = 0, outputs = 0;
    while (!queue_.empty()) {
      auto [size, node] = queue_.top();
      queue_.pop();
      if (done_.count(node) || size != table_size(node)) continue;
      steps += size * static_cast<double>(neighbours_[node].size() + 1);
      outputs += size / model_.nodes[node].size();
      if (size > cells * 16 || outputs > cells * 8 || steps > cells * 64) return false;
      if (size / model_.nodes[node].size() > cells) return false;
      remove(node, order);
    }
    return true;
  }

 private:
  double table_size(int node) const {
    double size = model_.nodes[node].size();
    for (int n : neighbours_[node]) size *= model_.nodes[n].size();
    return size;
  }

  void push(int node) { queue_.emplace(table_size(node), node); }

  void remove(int node, Order& order) {
    done_.insert(node);
    std::vector<int> scope(neighbours_[node].begin(), neighbours_[node].end());
    for (int a : scope) {
      neighbours_[a].erase(node);
      for (int b : scope)
        if (a != b) neighbours_[a].insert(b);
    }
    for (int a : scope) push(a);
    order.nodes.push_back(node);
    order.scopes.push_back(std::move(scope));
  }

  using Entry = std::pair<double, int>;
  const Model& model_;
  std::vector<std::set<int>>& neighbours_;
  std::set<int> done_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

/// A cost table over `scope`, which is in the order of elimination; last fastest.
struct Factor {
  std::vector<int> scope;
  std::vector<Cost> costs;
};

/// A factor seen from the table being built: the stride of the eliminated node and of each node of its
/// scope.
struct Strides {
  const Cost* data;
  std::size_t node;
  std::vector<std::size_t> scope;
};

class Eliminator {
 public:
  Eliminator(Model& model, const Order& order)
      : model_(model), order_(order), position_(model.nodes.size(), -1) {
    for (std::size_t i = 0; i < order.nodes.size(); ++i) position_[order.nodes[i]] = static_cast<int>(i);
    factors_.resize(order.nodes.size());
  }

  void run() {
    load();
    for (std::size_t i = 0; i < order_.nodes.size(); ++i) step(i);
  }

 private:
  void load() {
    for (int node : order_.nodes) {
      add({{node}, model_.nodes[node].costs});
      std::vector<int> edges = model_.nodes[node].edges;
      for (int e : edges) {
        int other = model_.edges[e].other(node);
        View table = view(model_, e, node);
        if (position_[other] < position_[node]) continue;
        Factor factor{{node, other}, {}};
        for (int p = 0; p < model_.nodes[node].size(); ++p)
          for (int q = 0; q < table.columns; ++q) factor.costs.push_back(table.at(p, q));
        add(std::move(factor));
        remove_edge(model_, e);
      }
    }
  }

  /// A factor waits at the node of its scope that is eliminated first.
  void add(Factor factor) { factors_[position_[factor.scope[0]]].push_back(std::move(factor)); }

  void step(std::size_t i) {
    int node = order_.nodes[i];
    std::vector<int> scope = order_.scopes[i];
    std::sort(scope.begin(), scope.end(), [&](int a, int b) { return position_[a] < position_[b]; });
    std::vector<int> best;
    Factor result{scope, minimise(node, scope, factors_[i], best)};
    factors_[i].clear();
    retire(model_, node, scope, std::move(best));
    if (!scope.empty()) return add(std::move(result));
    if (result.costs[0] >= kNever) throw Contradiction{};
    model_.constant += result.costs[0];
  }

  Strides strides_of(const Factor& factor, const std::vector<int>& scope) const {
    Strides result{factor.costs.data(), 0, std::vector<std::size_t>(scope.size() + 1, 0)};
    std::size_t stride = 1;
    for (std::size_t d = factor.scope.size(); d-- > 0;) {
      auto at = std::find(scope.begin(), scope.end(), factor.scope[d]);
      if (at == scope.end())
        result.node = stride;
      else
        result.scope[at - scope.begin()] = stride;
      stride *= model_.nodes[factor.scope[d]].size();
    }
    return result;
  }

  /// min over the node's strategies of the sum of the factors, for every choice of the scope.
  std::vector<Cost> minimise(int node, const std::vector<int>& scope, const std::vector<Factor>& factors,
                             std::vector<int>& best) const {
    std::vector<Strides> strides;
    for (const Factor& factor : factors) strides.push_back(strides_of(factor, scope));
    std::size_t inner = scope.empty() ? 1 : model_.nodes[scope.back()].size(), cells = inner;
    std::size_t outer = scope.empty() ? 0 : scope.size() - 1;
    for (std::size_t d = 0; d < outer; ++d) cells *= model_.nodes[scope[d]].size();
    std::vector<Cost> costs(cells, kNever);
    best.assign(cells, 0);
    std::vector<int> digits(outer, 0);
    std::vector<const Cost*> at(strides.size());
    for (std::size_t f = 0; f < at.size(); ++f) at[f] = strides[f].data;
    for (std::size_t cell = 0; cell < cells; cell += inner) {
      minimise_row(model_.nodes[node].size(), inner, strides, at, outer, costs.data() + cell,
                   best.data() + cell);
      advance(scope, strides, digits, at);
    }
    for (Cost& cost : costs)
      if (cost >= kNever / 2) cost = kNever;
    return costs;
  }

  /// One row of the result: the last node of the scope varies.
  void minimise_row(int size, std::size_t inner, const std::vector<Strides>& strides,
                    const std::vector<const Cost*>& at, std::size_t last, Cost* costs, int* best) const {
    static thread_local std::vector<Cost> row;
    row.resize(inner);
    for (int p = 0; p < size; ++p) {
      Cost base = 0;
      for (std::size_t f = 0; f < at.size(); ++f)
        if (strides[f].scope[last] == 0) base = std::min(base + at[f][p * strides[f].node], kNever);
      if (base >= kNever / 2) continue;
      std::fill(row.begin(), row.end(), base);
      for (std::size_t f = 0; f < at.size(); ++f) {
        if (strides[f].scope[last] == 0) continue;
        const Cost* values = at[f] + p * strides[f].node;  // stride 1: eliminated last means stored last
        for (std::size_t r = 0; r < inner; ++r) row[r] = std::min(row[r] + values[r], kNever);
      }
      for (std::size_t r = 0; r < inner; ++r)
        if (row[r] < costs[r]) costs[r] = row[r], best[r] = p;
    }
  }

  void advance(const std::vector<int>& scope, const std::vector<Strides>& strides, std::vector<int>& digits,
               std::vector<const Cost*>& at) const {
    for (std::size_t d = digits.size(); d-- > 0;) {
      for (std::size_t f = 0; f < at.size(); ++f) at[f] += strides[f].scope[d];
      int size = model_.nodes[scope[d]].size();
      if (++digits[d] < size) return;
      for (std::size_t f = 0; f < at.size(); ++f) at[f] -= strides[f].scope[d] * size;
      digits[d] = 0;
    }
  }

  Model& model_;
  const Order& order_;
  std::vector<int> position_;
  std::vector<std::vector<Factor>> factors_;
};

/// Live nodes by connected component.
std::vector<std::vector<int>> components(const Model& model) {
  std::vector<char> seen(model.nodes.size());
  std::vector<std::vector<int>> result;
  for (int root : live_nodes(model)) {
    if (seen[root]) continue;
    std::vector<int> members = {root};
    seen[root] = 1;
    for (std::size_t i = 0; i < members.size(); ++i)
      for (int e : model.nodes[members[i]].edges) {
        int other = model.edges[e].other(members[i]);
        if (!seen[other]) seen[other] = 1, members.push_back(other);
      }
    result.push_back(std::move(members));
  }
  return result;
}

}  // namespace

void eliminate_components(Model& model, std::int64_t cells, const Deadline& deadline) {
  std::vector<std::set<int>> neighbours(model.nodes.size());
  for (int e : live_edges(model)) {
    neighbours[model.edges[e].a].insert(model.edges[e].b);
    neighbours[model.edges[e].b].insert(model.edges[e].a);
  }
  for (const std::vector<int>& component : components(model)) {
    if (deadline.passed()) return;
    if (std::any_of(component.begin(), component.end(),
                    [&](int i) { return !model.nodes[i].pieces.empty(); }))
      continue;
    Order order;
    if (Planner(model, neighbours).plan(component, static_cast<double>(cells), order))
      Eliminator(model, order).run();
  }
}

}  // namespace alpa::ilp
