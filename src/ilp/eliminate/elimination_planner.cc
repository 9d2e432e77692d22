// Elimination of nodes on the numbers of tables alone
#include "src/ilp/eliminate/elimination_planner.h"

#include <algorithm>

#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

void insert(std::vector<int>& ascending, int x) {
  const auto place = std::lower_bound(ascending.begin(), ascending.end(), x);
  if (place == ascending.end() || *place != x) ascending.insert(place, x);
}

}  // namespace

EliminationPlanner::EliminationPlanner(const Model& model, bool copies_first,
                                       const Deadline& deadline, std::span<const int> kept)
    : model_(model),
      copies_first_(copies_first),
      deadline_(deadline),
      kept_(kept),
      place_(model.nodes.size(), -1) {}

void EliminationPlanner::add(const JointCosts& joint) {
  const auto [known, added] = of_joint_.try_emplace(joint.costs.get(), 0);
  if (added) {
    std::vector<Cost> costs;
    for (std::int64_t cost : *joint.costs) costs.push_back(cost >= kInfinite ? kNever : cost);
    known->second = tables_.intern(costs);
  }
  const Factor factor{joint.nodes, known->second};
  if (joint.nodes.empty()) alone_.push_back(factor);
  spread(factor);
}

bool EliminationPlanner::plan(const std::vector<int>& nodes, double cells,
                              const Allowance& allowance) {
  double outputs = 0;
  for (int node : nodes) at(node);
  for (int node : nodes) {
    if (deadline_.passed()) return false;
    load(node);
  }
  for (int node : nodes) push(node);
  while (!queue_.empty()) {
    if (deadline_.passed()) return false;
    auto [late, size, node] = queue_.top();
    queue_.pop();
    if (at(node).is_gone || size != table_size(node)) continue;
    double output = size / model_.nodes[node].size();
    largest_ = std::max(largest_, output);
    if (output > cells || size > cells * kTuning.elimination_planner.read_cells) return false;
    if (!eliminate(node) || !is_transient(node)) continue;
    steps_ += size * static_cast<double>(last_factors_);
    outputs += output;
    if (outputs > allowance.cells || steps_ > allowance.steps) return false;
  }
  return true;
}

int EliminationPlanner::rest() {
  std::vector<Factor> left = alone_;
  for (int node : kept_)
    for (const Factor& factor : at(node).factors)
      if (*std::min_element(factor.scope.begin(), factor.scope.end()) == node)
        left.push_back(factor);
  for (const Elimination& step : order_)
    if (step.scope.empty()) left.push_back({{}, step.table});
  return sum({kept_.begin(), kept_.end()}, left).table;
}

EliminationPlanner::Live& EliminationPlanner::at(int node) {
  int& place = place_[node];
  if (place < 0) {
    place = static_cast<int>(live_.size());
    live_.emplace_back();
  }
  return live_[place];
}

void EliminationPlanner::load(int node) {
  const ModelNode& n = model_.nodes[node];
  at(node).factors.push_back({{node}, tables_.intern(n.costs)});
  deadline_.spend(static_cast<double>(n.costs.size()));
  for (int e : n.edges) {
    int other = model_.edges[e].other(node);
    insert(at(node).neighbours, other);
    if (model_.edges[e].a != node) continue;
    deadline_.spend(static_cast<double>(model_.edges[e].costs.size()));
    Factor factor{{node, other}, tables_.intern(model_.edges[e].costs)};
    at(node).factors.push_back(factor);
    at(other).factors.push_back(std::move(factor));
  }
}

void EliminationPlanner::spread(const Factor& factor) {
  for (int a : factor.scope) {
    at(a).factors.push_back(factor);
    for (int b : factor.scope)
      if (a != b) insert(at(a).neighbours, b);
  }
}

double EliminationPlanner::table_size(int node) {
  double size = model_.nodes[node].size();
  for (int n : at(node).neighbours) size *= model_.nodes[n].size();
  return size;
}

void EliminationPlanner::push(int node) {
  if (std::binary_search(kept_.begin(), kept_.end(), node)) return;
  bool late = copies_first_ && model_.nodes[node].size() > 2;
  queue_.emplace(late, table_size(node), node);
}

/// Adds up the node's factors of equal scope. Repeated layers have most of them in common, so that
/// this is done once for all layers.
void EliminationPlanner::join_factors(int node) {
  std::vector<std::pair<std::vector<int>, Factor>> by_scope;
  std::vector<Factor>& own = at(node).factors;
  for (Factor& factor : own) {
    by_scope.emplace_back(factor.scope, std::move(factor));
    std::sort(by_scope.back().first.begin(), by_scope.back().first.end());
  }
  std::stable_sort(by_scope.begin(), by_scope.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  own.clear();
  for (auto first = by_scope.begin(), last = first; first != by_scope.end(); first = last) {
    std::vector<Factor> factors;
    for (; last != by_scope.end() && last->first == first->first; ++last)
      factors.push_back(std::move(last->second));
    own.push_back(factors.size() == 1 ? std::move(factors[0]) : sum(first->first, factors));
  }
}

/// As the elimination of a node of one strategy.
EliminationPlanner::Factor EliminationPlanner::sum(const std::vector<int>& scope,
                                                   const std::vector<Factor>& factors) {
  bool fresh = false;
  const int table = tables_.result(recipe(1, -1, scope, factors), fresh);
  double size = 1;
  for (int s : scope) size *= model_.nodes[s].size();
  if (fresh) steps_ += size * static_cast<double>(factors.size());
  return {scope, table};
}

/// Returns true if this elimination has not been planned before for equal tables.
bool EliminationPlanner::eliminate(int node) {
  std::vector<int> scope = std::move(at(node).neighbours);
  join_factors(node);
  bool fresh = false;
  int table =
      tables_.result(recipe(model_.nodes[node].size(), node, scope, at(node).factors), fresh);
  last_factors_ = at(node).factors.size();
  const double work = kTuning.elimination_planner.planning_cells *
                      static_cast<double>(scope.size() * scope.size() + last_factors_);
  planning_ += work;
  deadline_.spend(work);
  for (int a : scope) {
    Live& other = at(a);
    std::erase_if(other.factors, [&](const Factor& f) {
      return std::find(f.scope.begin(), f.scope.end(), node) != f.scope.end();
    });
    other.factors.push_back({scope, table});
    std::erase(other.neighbours, node);
    for (int b : scope)
      if (a != b) insert(other.neighbours, b);
  }
  for (int a : scope) push(a);
  at(node) = {{}, {}, true};
  order_.push_back({node, std::move(scope), table});
  return fresh;
}

/// False after many eliminations of this size: along repeated layers equal tables
/// are to be expected by then (see `Tables`), and take nothing. Where they are not
/// equal, `compute` finds out.
bool EliminationPlanner::is_transient(int node) {
  std::vector<int> size = {model_.nodes[node].size(), static_cast<int>(last_factors_)};
  for (int s : order_.back().scope) size.push_back(model_.nodes[s].size());
  return ++repeated_[std::move(size)] <= kTuning.elimination_planner.most_transient;
}

Recipe EliminationPlanner::recipe(int strategies, int node, const std::vector<int>& scope,
                                  const std::vector<Factor>& factors) const {
  Recipe result(1, {strategies});
  for (int s : scope) result[0].push_back(model_.nodes[s].size());
  for (const Factor& factor : factors) {
    std::vector<int> entry = {factor.table};
    for (int s : factor.scope)
      entry.push_back(s == node
                          ? 0
                          : 1 + static_cast<int>(std::lower_bound(scope.begin(), scope.end(), s) -
                                                 scope.begin()));
    result.push_back(std::move(entry));
  }
  std::sort(result.begin() + 1, result.end());
  return result;
}

}  // namespace alpa::ilp
