// src/ilp/eliminate.cc — elimination of components, and of all but a boundary, on tables that equal parts
// share
#include "eliminate.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>

#include "alpa/base/error.h"
#include "alpa/ilp/boundary_table.h"
#include "elimination_tables.h"
#include "reduce.h"
#include "shared_terms.h"

namespace alpa::ilp {
namespace {

/// Tables are computed this many cells at a time between looks at the deadline.
constexpr std::size_t kCellsAtOnce = 1 << 16;
/// What planning one elimination is worth, per pair of its nodes.
constexpr double kPlanningCells = 100;

/// Eliminations of one size whose tables differ, at most, before those of repeated layers become periodic.
constexpr int kMostTransient = 8;

/// What one component may take: steps of minimisations, and cells of the tables that they make.
struct Allowance {
  double steps, cells;
};

struct Elimination {
  int node = 0;
  std::vector<int> scope;
  int table = 0;  ///< number of the resulting table
};

/// Eliminates one component symbolically, smallest tables first; with `copies_first`, nodes of two
/// strategies before all others (what shares a value's copies is then joined once, instead of the copies
/// among themselves). Nodes of `kept` (ascending) stay.
class Planner {
 public:
  Planner(const Model& model, bool copies_first, const Deadline& deadline, std::span<const int> kept = {})
      : model_(model),
        copies_first_(copies_first),
        deadline_(deadline),
        kept_(kept),
        place_(model.nodes.size(), -1) {}

  /// False at the deadline, or if the budget is exceeded: `cells` for one table, and in all what
  /// `allowance` gives.
  bool plan(const std::vector<int>& component, double cells, const Allowance& allowance) {
    double outputs = 0;
    for (int node : component) at(node);
    for (int node : component) {
      if (deadline_.passed()) return false;
      load(node);
    }
    for (int node : component) push(node);
    while (!queue_.empty()) {
      if (deadline_.passed()) return false;
      auto [late, size, node] = queue_.top();
      queue_.pop();
      if (at(node).is_gone || size != table_size(node)) continue;
      double output = size / model_.nodes[node].size();
      largest_ = std::max(largest_, output);
      if (output > cells || size > cells * 16) return false;
      if (!eliminate(node) || !is_expected(node)) continue;
      steps_ += size * static_cast<double>(last_factors_);
      outputs += output;
      if (outputs > allowance.cells || steps_ > allowance.steps) return false;
    }
    return true;
  }

  /// Before `plan`.
  void add(const JointCosts& joint) {
    const auto [known, added] = of_joint_.try_emplace(joint.costs.get(), 0);
    if (added) {
      std::vector<Cost> costs;
      for (std::int64_t cost : *joint.costs) costs.push_back(cost >= kInfinite ? kNever : cost);
      known->second = tables_.intern(costs);
    }
    const Loose factor{joint.nodes, known->second};
    if (joint.nodes.empty()) alone_.push_back(factor);
    spread(factor);
  }

  /// After `plan`: number of the table over all kept nodes.
  int rest() {
    std::vector<Loose> left = alone_;
    for (int node : kept_)
      for (const Loose& factor : at(node).factors)
        if (*std::min_element(factor.scope.begin(), factor.scope.end()) == node) left.push_back(factor);
    for (const Elimination& step : order_)
      if (step.scope.empty()) left.push_back({{}, step.table});
    return sum({kept_.begin(), kept_.end()}, left).table;
  }

  double steps() const { return steps_; }
  /// What planning took, in cells.
  double planning() const { return planning_; }
  double largest() const { return largest_; }
  const Model& model() const { return model_; }
  Tables& tables() { return tables_; }
  const std::vector<Elimination>& order() const { return order_; }

 private:
  struct Loose {
    std::vector<int> scope;  // as the table is stored
    int table;
  };
  std::map<const void*, int> of_joint_;  ///< numbers of joint costs by their table

  /// A node while it is there.
  struct Live {
    std::vector<Loose> factors;
    std::vector<int> neighbours;  ///< ascending
    bool is_gone = false;
  };

  Live& at(int node) {
    int& place = place_[node];
    if (place < 0) {
      place = static_cast<int>(live_.size());
      live_.emplace_back();
    }
    return live_[place];
  }

  static void insert(std::vector<int>& ascending, int x) {
    const auto place = std::lower_bound(ascending.begin(), ascending.end(), x);
    if (place == ascending.end() || *place != x) ascending.insert(place, x);
  }

  void load(int node) {
    const ModelNode& n = model_.nodes[node];
    at(node).factors.push_back({{node}, tables_.intern(n.costs)});
    deadline_.spend(static_cast<double>(n.costs.size()));
    for (int e : n.edges) {
      int other = model_.edges[e].other(node);
      insert(at(node).neighbours, other);
      if (model_.edges[e].a != node) continue;
      deadline_.spend(static_cast<double>(model_.edges[e].costs.size()));
      Loose factor{{node, other}, tables_.intern(model_.edges[e].costs)};
      at(node).factors.push_back(factor);
      at(other).factors.push_back(std::move(factor));
    }
  }

  void spread(const Loose& factor) {
    for (int a : factor.scope) {
      at(a).factors.push_back(factor);
      for (int b : factor.scope)
        if (a != b) insert(at(a).neighbours, b);
    }
  }

  double table_size(int node) {
    double size = model_.nodes[node].size();
    for (int n : at(node).neighbours) size *= model_.nodes[n].size();
    return size;
  }

  void push(int node) {
    if (std::binary_search(kept_.begin(), kept_.end(), node)) return;
    bool late = copies_first_ && model_.nodes[node].size() > 2;
    queue_.emplace(late, table_size(node), node);
  }

  /// Adds up the node's factors of equal scope. Repeated layers have most of them in common, so that this
  /// is done once for all layers.
  void join_factors(int node) {
    std::vector<std::pair<std::vector<int>, Loose>> by_scope;
    std::vector<Loose>& own = at(node).factors;
    for (Loose& factor : own) {
      by_scope.emplace_back(factor.scope, std::move(factor));
      std::sort(by_scope.back().first.begin(), by_scope.back().first.end());
    }
    std::stable_sort(by_scope.begin(), by_scope.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    own.clear();
    for (auto first = by_scope.begin(), last = first; first != by_scope.end(); first = last) {
      std::vector<Loose> factors;
      for (; last != by_scope.end() && last->first == first->first; ++last)
        factors.push_back(std::move(last->second));
      own.push_back(factors.size() == 1 ? std::move(factors[0]) : sum(first->first, factors));
    }
  }

  /// As the elimination of a node of one strategy.
  Loose sum(const std::vector<int>& scope, const std::vector<Loose>& factors) {
    bool fresh = false;
    const int table = tables_.result(recipe(1, -1, scope, factors), fresh);
    double size = 1;
    for (int s : scope) size *= model_.nodes[s].size();
    if (fresh) steps_ += size * static_cast<double>(factors.size());
    return {scope, table};
  }

  /// Returns true if this elimination has not been planned before for equal tables.
  bool eliminate(int node) {
    std::vector<int> scope = std::move(at(node).neighbours);
    join_factors(node);
    bool fresh = false;
    int table = tables_.result(recipe(model_.nodes[node].size(), node, scope, at(node).factors), fresh);
    last_factors_ = at(node).factors.size();
    const double work = kPlanningCells * static_cast<double>(scope.size() * scope.size() + last_factors_);
    planning_ += work;
    deadline_.spend(work);
    for (int a : scope) {
      Live& other = at(a);
      std::erase_if(other.factors, [&](const Loose& f) {
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

  /// False after many eliminations of this size: along repeated layers equal tables are to be expected by
  /// then (see `Tables`). Where they are not equal, `compute` finds out.
  bool is_expected(int node) {
    std::vector<int> size = {model_.nodes[node].size(), static_cast<int>(last_factors_)};
    for (int s : order_.back().scope) size.push_back(model_.nodes[s].size());
    return ++repeated_[std::move(size)] <= kMostTransient;
  }

  Recipe recipe(int strategies, int node, const std::vector<int>& scope,
                const std::vector<Loose>& factors) {
    Recipe result(1, {strategies});
    for (int s : scope) result[0].push_back(model_.nodes[s].size());
    for (const Loose& factor : factors) {
      std::vector<int> entry = {factor.table};
      for (int s : factor.scope)
        entry.push_back(s == node ? 0
                                  : 1 + static_cast<int>(std::lower_bound(scope.begin(), scope.end(), s) -
                                                         scope.begin()));
      result.push_back(std::move(entry));
    }
    std::sort(result.begin() + 1, result.end());
    return result;
  }

  using Entry = std::tuple<bool, double, int>;  // late, table size, node
  const Model& model_;
  bool copies_first_;
  const Deadline& deadline_;
  std::span<const int> kept_;
  double steps_ = 0, largest_ = 0, planning_ = 0;
  Tables tables_;
  std::vector<int> place_;  ///< per node of the model, in `live_`
  std::vector<Live> live_;
  std::vector<Loose> alone_;                  ///< over no node
  std::map<std::vector<int>, int> repeated_;  ///< planned eliminations by size
  std::size_t last_factors_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<Elimination> order_;
};

/// A factor seen from the table being built: its strides along (node, scope...).
struct Strides {
  const Cost* data;
  std::vector<std::ptrdiff_t> along;  ///< signed, because steps back are taken, too
};

/// Carries out one recipe: min over the node's strategies of the sum of the factors, for every choice of
/// the scope.
class Minimisation {
 public:
  Minimisation(const Recipe& recipe, const Tables& tables)
      : sizes_(recipe[0]), dimensions_(recipe[0].size() - 1), digits_(dimensions_, 0) {
    for (std::size_t f = 1; f < recipe.size(); ++f) add_factor(recipe[f], tables);
    inner_ = dimensions_ ? static_cast<std::size_t>(sizes_[dimensions_]) : 1;
    cells_ = 1;
    for (std::size_t d = 1; d <= dimensions_; ++d) cells_ *= static_cast<std::size_t>(sizes_[d]);
    row_.resize(inner_);
  }

  /// False at the deadline.
  bool run(std::vector<Cost>& costs, std::vector<int>& best, const Deadline& deadline) {
    costs.assign(cells_, kNever);
    best.assign(cells_, 0);
    const std::size_t at_once = inner_ * std::max<std::size_t>(1, kCellsAtOnce / inner_);
    const double cost_of_cell = static_cast<double>(sizes_[0]) * static_cast<double>(1 + varying_.size());
    for (std::size_t cell = 0; cell < cells_; cell += inner_) {
      if (cell % at_once == 0) {
        if (deadline.passed()) return false;
        deadline.spend(static_cast<double>(std::min(at_once, cells_ - cell)) * cost_of_cell);
      }
      minimise_row(costs.data() + cell, best.data() + cell);
      advance();
    }
    for (Cost& cost : costs)
      if (cost >= kNever / 2) cost = kNever;
    return true;
  }

 private:
  void add_factor(const std::vector<int>& entry, const Tables& tables) {
    Strides strides{tables.costs[entry[0]].data(), std::vector<std::ptrdiff_t>(dimensions_ + 1, 0)};
    std::ptrdiff_t stride = 1;
    for (std::size_t d = entry.size(); d-- > 1;) {
      strides.along[entry[d]] = stride;
      stride *= sizes_[entry[d]];
    }
    const bool varies = dimensions_ > 0 && strides.along[dimensions_] > 0;
    (varies ? varying_ : fixed_).push_back(std::move(strides));
  }

  /// The last node of the scope varies. Infinite terms stay above kNever / 2 whatever is added.
  void minimise_row(Cost* costs, int* best) {
    for (int p = 0; p < sizes_[0]; ++p) {
      Cost base = 0;
      for (const Strides& f : fixed_) base = std::min(base + f.data[p * f.along[0]], kNever);
      if (base >= kNever / 2) continue;
      std::fill(row_.begin(), row_.end(), base);
      for (const Strides& f : varying_) add_row(f.data + p * f.along[0], f.along[dimensions_]);
      take_better(p, costs, best);
    }
  }

  void add_row(const Cost* values, std::ptrdiff_t stride) {
    Cost* const row = row_.data();
    for (std::size_t r = 0; r < inner_; ++r) {
      const Cost sum = row[r] + values[static_cast<std::ptrdiff_t>(r) * stride];
      row[r] = sum < kNever ? sum : kNever;
    }
  }

  void take_better(int p, Cost* costs, int* best) const {
    const Cost* const row = row_.data();
    for (std::size_t r = 0; r < inner_; ++r) {
      const Cost old = costs[r], sum = row[r];
      const int chosen = best[r];
      costs[r] = sum < old ? sum : old;
      best[r] = sum < old ? p : chosen;
    }
  }

  void advance() {
    for (std::size_t d = dimensions_; d-- > 1;) {  // dimension d of the scope, but not its last
      const bool wraps = ++digits_[d] == sizes_[d];
      if (wraps) digits_[d] = 0;
      for (std::vector<Strides>* factors : {&fixed_, &varying_})
        for (Strides& f : *factors) f.data += f.along[d] - (wraps ? f.along[d] * sizes_[d] : 0);
      if (!wraps) return;
    }
  }

  std::vector<int> sizes_;  // node, scope...
  std::size_t dimensions_, inner_ = 1, cells_ = 1;
  std::vector<int> digits_;
  std::vector<Strides> fixed_, varying_;  // factors without and with the last node of the scope
  std::vector<Cost> row_;
};

/// Takes the least finite cell off all of them.
Cost take_least(std::vector<Cost>& costs) {
  const Cost least = *std::min_element(costs.begin(), costs.end());
  if (least >= kNever) return 0;
  for (Cost& cost : costs)
    if (cost < kNever) cost -= least;
  return least;
}

/// Carries out a recipe over contents. No contents at the deadline, or when the allowance is used up.
Result minimum(const Recipe& recipe, Tables& tables, Allowance& allowance, const Deadline& deadline) {
  const double cells = std::accumulate(recipe[0].begin() + 1, recipe[0].end(), 1.0, std::multiplies<>());
  allowance.cells -= cells;
  allowance.steps -= cells * recipe[0][0] * static_cast<double>(recipe.size() - 1);
  std::vector<int> best;
  std::vector<Cost> costs;
  if (allowance.cells < 0 || allowance.steps < 0) return {};
  if (!Minimisation(recipe, tables).run(costs, best, deadline)) return {};
  const Cost least = take_least(costs);
  return {tables.stored(std::move(costs)), least,
          std::make_shared<const std::vector<int>>(std::move(best))};
}

/// Computes a table, and before it the sums it is made of, if that has not been done yet. False at the
/// deadline, or when the allowance is used up.
bool compute(Tables& tables, int table, Allowance& allowance, const Deadline& deadline) {
  if (tables.outcomes[table].result.contents >= 0) return true;
  Recipe recipe = tables.outcomes[table].recipe;
  Cost more = 0;
  for (std::size_t f = 1; f < recipe.size(); ++f) {
    if (!compute(tables, recipe[f][0], allowance, deadline)) return false;
    const Result& factor = tables.outcomes[recipe[f][0]].result;
    recipe[f][0] = factor.contents;
    more += factor.more;
  }
  std::sort(recipe.begin() + 1, recipe.end());
  Result& result = tables.computed[recipe];
  if (result.contents < 0) result = minimum(recipe, tables, allowance, deadline);
  tables.outcomes[table].result = {result.contents, more + result.more, result.best};
  return result.contents >= 0;
}

/// Computes every table before the model changes, so that a deadline leaves it as it was.
void carry_out(Model& model, Tables& tables, const std::vector<Elimination>& order, Allowance allowance,
               const Deadline& deadline) {
  for (const Elimination& step : order)
    if (!compute(tables, step.table, allowance, deadline)) return;
  for (const Elimination& step : order) {
    std::vector<int> edges = model.nodes[step.node].edges;
    for (int e : edges) remove_edge(model, e);
    const Result& result = tables.outcomes[step.table].result;
    retire(model, step.node, step.scope, result.best);
    if (!step.scope.empty()) continue;
    const Cost cost = tables.costs[result.contents][0];
    if (cost >= kNever) throw Contradiction{};
    model.constant += cost + result.more;
  }
}

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
    std::sort(members.begin(), members.end());
    result.push_back(std::move(members));
  }
  return result;
}

/// The tables of an elimination that was planned; nothing if they take more than the allowance after all.
std::optional<BoundaryTable> carried_out(Planner& planner, std::span<const int> boundary,
                                         Allowance allowance, const Deadline& deadline) {
  const Model& model = planner.model();
  Tables& tables = planner.tables();
  for (const Elimination& step : planner.order())
    if (!compute(tables, step.table, allowance, deadline)) return std::nullopt;
  const int rest = planner.rest();
  if (!compute(tables, rest, allowance, deadline)) return std::nullopt;
  const auto sizes_of = [&](const std::vector<int>& nodes) {
    std::vector<int> sizes;
    for (int node : nodes) sizes.push_back(model.nodes[node].size());
    return sizes;
  };
  BoundaryTable table{
      {boundary.begin(), boundary.end()}, {}, {}, static_cast<int>(model.nodes.size()), model.trail};
  table.sizes = sizes_of(table.boundary);
  const Result& result = tables.outcomes[rest].result;
  for (Cost cost : tables.costs[result.contents])
    table.costs.push_back(cost >= kNever ? kInfinite : cost + result.more + model.constant);
  for (const Elimination& step : planner.order())
    table.steps.push_back(
        {step.node, step.scope, sizes_of(step.scope), tables.outcomes[step.table].result.best});
  return table;
}

/// The model after reductions that leave `boundary`, and nodes with joint costs, as they are.
Model reduced_around(Model model, std::span<const int> boundary, std::span<const JointCosts> joint,
                     const Deadline& deadline) {
  for (int node : boundary) model.nodes[node].kept = true;
  for (const JointCosts& costs : joint)
    for (int node : costs.nodes) model.nodes[node].kept = true;
  reduce(model, {}, deadline);
  return model;
}

/// No choice of the other nodes exists.
BoundaryTable forbidden_table(const Model& model, std::span<const int> boundary) {
  BoundaryTable result{
      {boundary.begin(), boundary.end()}, {}, {}, static_cast<int>(model.nodes.size()), {}};
  std::size_t cells = 1;
  for (int node : boundary) {
    result.sizes.push_back(model.nodes[node].size());
    cells *= static_cast<std::size_t>(model.nodes[node].size());
  }
  result.costs.assign(cells, kInfinite);
  return result;
}

}  // namespace

std::variant<BoundaryTable, TableTooLarge> eliminate_to(const Problem& problem,
                                                        std::span<const int> boundary,
                                                        std::int64_t most_cells,
                                                        std::span<const JointCosts> joint) {
  validate(problem);
  require(!problem.usage_limit, "eliminate_to: the problem has a usage limit, which no table can hold");
  const Deadline never(std::numeric_limits<double>::infinity());
  const Model whole = with_copies(build(problem, false, never));
  const double cells = static_cast<double>(most_cells);
  double size = 1;
  for (int node : boundary) size *= whole.nodes[node].size();
  if (size > cells) return TableTooLarge{size};
  try {
    // Reductions make tables smaller, but may join followers to nodes with many neighbours: the better of
    // both.
    const Model reduced = reduced_around(whole, boundary, joint, never);
    std::vector<std::unique_ptr<Planner>> planners;
    Planner* best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Model* model : {&whole, &reduced})
      for (bool copies_first : {false, true}) {
        Planner& planner =
            *planners.emplace_back(std::make_unique<Planner>(*model, copies_first, never, boundary));
        for (const JointCosts& costs : joint) planner.add(costs);
        const bool fits = planner.plan(live_nodes(*model), cells, {256 * cells, 16 * cells});
        least = std::min(least, planner.largest());
        if (fits && (!best || planner.steps() < best->steps())) best = &planner;
      }
    if (!best) return TableTooLarge{least};
    auto table = carried_out(*best, boundary, {256 * cells + size, 17 * cells}, never);
    if (table) {
      table->nodes = static_cast<int>(problem.nodes.size());
      table->copies = static_cast<int>(whole.nodes.size() - problem.nodes.size());
      return *std::move(table);
    }
    return TableTooLarge{best->largest()};
  } catch (const Contradiction&) {
    return forbidden_table(whole, boundary);
  }
}

void eliminate_components(Model& model, std::int64_t cells, const Deadline& deadline) {
  for (const std::vector<int>& component : components(model)) {
    if (deadline.passed()) return;
    if (std::any_of(component.begin(), component.end(),
                    [&](int i) { return !model.nodes[i].pieces.empty() || !model.nodes[i].terms.empty(); }))
      continue;
    const double largest = static_cast<double>(cells);
    const Allowance allowance{256 * largest, 16 * largest};
    Planner plain(model, false, deadline);
    const bool first = plain.plan(component, largest, allowance);
    if (first && plain.steps() <= plain.planning()) {  // another plan would cost more than it could save
      carry_out(model, plain.tables(), plain.order(), allowance, deadline);
      continue;
    }
    Planner copies(model, true, deadline);
    const bool second = copies.plan(component, largest, allowance);
    if (!first && !second) continue;
    Planner& better = !second || (first && plain.steps() <= copies.steps()) ? plain : copies;
    carry_out(model, better.tables(), better.order(), allowance, deadline);
  }
}

}  // namespace alpa::ilp
