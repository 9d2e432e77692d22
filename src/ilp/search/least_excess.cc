// Finds a choice that keeps the usage rows, regardless of costs, or proves that none does
#include "src/ilp/search/least_excess.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/ilp/dual/dual.h"
#include "src/ilp/eliminate/eliminate.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/reduce/presolve.h"
#include "src/ilp/search/core.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {
namespace {

Model without_costs(const Model& model) {
  Model result = model;
  for (ModelNode& node : result.nodes) free_of_charge(node.costs);
  for (ModelEdge& edge : result.edges) free_of_charge(edge.costs);
  for (SharedTerm& term : result.terms) {
    free_of_charge(term.costs);
    term.splits.clear();
  }
  result.constant = 0;
  return result;
}

/// The model without rows in which a choice costs what it uses at `row`, beyond what the slack
/// leaves out.
Model usage_at(const Model& model, int row) {
  Model result = without_costs(model);
  result.slack.clear(), result.times.clear(), result.trail.clear();
  for (ModelNode& node : result.nodes) {
    if (const Piece* piece = node.piece_at(row))
      for (std::size_t s = 0; s < node.costs.size(); ++s)
        node.costs[s] = plus(node.costs[s], piece->amounts[s]);
    node.pieces.clear();
    node.normal = true;
  }
  return result;
}

/// Bound and first choices, and no search for better ones.
Options quick(Options options) {
  options = inner_options(std::move(options));
  options.limits.relative_gap = 0;
  options.methods.use_cbc = false;
  return options;
}

/// The choice that uses least at `row`. Rows apart, the model is mostly solved at once.
CoreSolution least_usage(const Model& model, int row, const Options& options,
                         const Deadline& deadline) {
  Model usage = usage_at(model, row);
  presolve(usage, options, deadline);
  if (options.methods.presolve.elimination)
    eliminate(usage, options.methods.elimination_cells, deadline);
  Statistics ignored;
  CoreSolution solution = solve_core(usage, kNever, {}, options, deadline, ignored);
  if (!solution.choice.empty())
    postsolve(usage, solution.choice), solution.choice.resize(model.nodes.size());
  return solution;
}

class ExcessSearch {
 public:
  ExcessSearch(const Model& model, std::vector<double> weights, const Options& options,
               const Deadline& deadline)
      : model_(without_costs(model)),
        dual_(model_),
        weights_(std::move(weights)),
        options_(options),
        deadline_(deadline) {
    if (std::accumulate(weights_.begin(), weights_.end(), 0.0) <= 0)
      weights_.assign(model_.slack.size(), 1);
  }

  LeastExcess run() {
    for (int k = 0; k < options_.methods.dual_sweeps && rate_ > kTuning.least_excess.last_rate &&
                    !deadline_.passed();
         ++k) {
      set_weights();
      dual_.sweep();
      deadline_.spend(dual_.cells_of_sweep());
      keep_bound();
      if (is_found(dual_.rounded(), k)) return std::move(result_);
      if (is_enough(best_bound_)) break;
      if (model_.slack.empty()) continue;
      move_weights();
      if (k + 1 == kTuning.ascent.repair_every && probe()) return std::move(result_);
    }
    if (model_.slack.empty() || best_.multipliers.empty())
      return std::move(result_);  // no rows, or no time for a sweep
    dual_.restore(best_);
    raise(dual_.exact().proven(), weightiest(best_.multipliers));
    return std::move(result_);
  }

 private:
  static int weightiest(const std::vector<double>& weights) {
    return static_cast<int>(std::max_element(weights.begin(), weights.end()) - weights.begin());
  }

  void raise(Cost bound, int row) {
    if (bound <= result_.bound) return;
    result_.bound = bound;
    result_.time = model_.times[static_cast<std::size_t>(row)];
  }

  bool is_enough(double bound) const {
    const double share = options_.explain ? kTuning.least_excess.tight_enough : 0;
    return bound >= 1 && bound > share * static_cast<double>(least_);
  }

  /// Looks at the weightiest row alone. True if no choice fits there, or one was found.
  bool probe() {
    const int row = weightiest(weights_);
    CoreSolution least =
        least_usage(model_, row, quick(options_), deadline_.within(deadline_.left() / 4));
    raise(least.bound - model_.slack[static_cast<std::size_t>(row)], row);
    if (!least.choice.empty()) {
      const std::vector<Cost> over = excess(model_, least.choice);
      least_ = std::min(least_, *std::max_element(over.begin(), over.end()));
      if (is_found(std::move(least.choice), kTuning.ascent.repair_every - 1)) return true;
    }
    return result_.bound > 0;
  }

  void set_weights() {
    const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    for (double& weight : weights_) weight /= sum;
    dual_.set_multipliers(weights_);
  }

  void keep_bound() {
    const double bound = dual_.bound();
    idle_ = bound > best_bound_ ? 0 : idle_ + 1;
    if (bound > best_bound_) best_bound_ = bound, best_ = dual_.state();
    if (idle_ <= kTuning.least_excess.patience) return;
    rate_ *= kTuning.least_excess.shrink;
    idle_ = 0;
    dual_.restore(best_);
    weights_ = best_.multipliers;
  }

  bool is_found(std::vector<int> choice, int sweep) {
    if (price(model_, choice) >= kNever || !fits(model_, choice)) {
      if (sweep % kTuning.ascent.repair_every != kTuning.ascent.repair_every - 1) return false;
      if (!repair(model_, choice, kTuning.ascent.few_repair_moves, deadline_, weights_))
        return false;
    }
    result_.choice = std::move(choice);
    return true;
  }

  void move_weights() {
    const std::vector<Cost> over = excess(model_, dual_.rounded());
    if (price(model_, dual_.rounded()) < kNever)
      least_ = std::min(least_, *std::max_element(over.begin(), over.end()));
    Cost largest = 1;
    for (Cost c : over) largest = std::max(largest, std::abs(c));
    const double most = *std::max_element(weights_.begin(), weights_.end());
    for (std::size_t r = 0; r < over.size(); ++r)
      weights_[r] = std::max(weights_[r], kTuning.least_excess.least_weight * most) *
                    std::exp(rate_ * static_cast<double>(over[r]) / static_cast<double>(largest));
  }

  const Model model_;
  Dual dual_;
  std::vector<double> weights_;
  const Options& options_;
  const Deadline& deadline_;
  Dual::State best_;
  double best_bound_ = -1e300, rate_ = kTuning.least_excess.first_rate;
  int idle_ = 0;
  Cost least_ = kNever;  ///< largest excess of a choice
  LeastExcess result_;
};

}  // namespace

LeastExcess least_excess(const Model& model, const std::vector<double>& weights,
                         const Options& options, const Deadline& deadline) {
  return ExcessSearch(model, weights, options, deadline).run();
}

}  // namespace alpa::ilp
