// Tables of eliminations, stored by contents and computed by recipe
#include "src/ilp/eliminate/elimination_tables.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "src/ilp/model/tuning.h"

namespace alpa::ilp {

std::size_t HashOfRecipe::operator()(const Recipe& recipe) const {
  std::size_t hash = recipe.size();
  for (const std::vector<int>& entry : recipe)
    for (int x : entry)
      hash = (hash ^ static_cast<std::size_t>(x)) * 0x9e3779b97f4a7c15 + (hash >> 29);
  return hash;
}

int Tables::intern(const std::vector<Cost>& values) {
  const int contents = stored(values);
  auto [at, fresh] = of_model.emplace(contents, static_cast<int>(outcomes.size()));
  if (fresh) outcomes.push_back({{}, {contents, 0, nullptr}});
  return at->second;
}

int Tables::result(const Recipe& recipe, bool& fresh) {
  auto [at, added] = results.emplace(recipe, static_cast<int>(outcomes.size()));
  fresh = added;
  if (added) outcomes.push_back({recipe, {}});
  return at->second;
}

int Tables::stored(std::vector<Cost> values) {
  std::size_t hash = values.size();
  for (Cost value : values)
    hash = (hash ^ static_cast<std::size_t>(value)) * 0x9e3779b97f4a7c15 + (hash >> 29);
  const auto [begin, end] = by_contents.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry)
    if (costs[entry->second] == values) return entry->second;
  by_contents.emplace(hash, static_cast<int>(costs.size()));
  costs.push_back(std::move(values));
  return static_cast<int>(costs.size()) - 1;
}

namespace {

/// A factor seen from the table being built: its strides along (node, scope...).
struct Strides {
  const Cost* data;
  std::vector<std::ptrdiff_t> along;  ///< signed, because steps back are taken, too
};

/// Carries out one recipe: min over the node's strategies of the sum of the factors, for
/// every choice of the scope.
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
    const std::size_t at_once =
        inner_ * std::max<std::size_t>(1, kTuning.elimination_tables.cells_at_once / inner_);
    const double cost_of_cell =
        static_cast<double>(sizes_[0]) * static_cast<double>(1 + varying_.size());
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

/// Carries out a recipe over contents. No contents at the deadline, or when
/// the allowance is used up.
Result minimum(const Recipe& recipe, Tables& tables, Allowance& allowance,
               const Deadline& deadline) {
  const double cells =
      std::accumulate(recipe[0].begin() + 1, recipe[0].end(), 1.0, std::multiplies<>());
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

}  // namespace

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

}  // namespace alpa::ilp
