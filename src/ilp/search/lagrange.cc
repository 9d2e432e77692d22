// Multipliers on the usage rows of a model that elimination solves exactly without them
#include "src/ilp/search/lagrange.h"

#include <algorithm>
#include <cmath>

#include "src/ilp/eliminate/eliminate.h"
#include "src/ilp/model/rows.h"
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/reduce/presolve.h"
#include "src/ilp/search/least_excess.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {
namespace {

__extension__ using Wide = __int128;

constexpr int kShift = 8;  // costs are scaled by 2^8 while prices of usages are rounded down
constexpr double kLargestSum = 1e15;  // of all prices together, in costs
// multipliers are whole numbers of 2^-20 scaled costs per unit
constexpr int kMultiplierBits = 20;

using Multipliers = std::vector<Wide>;

/// Sums of multipliers before each row.
Multipliers running_sums(const std::vector<double>& prices) {
  Multipliers upto(prices.size() + 1, 0);
  for (std::size_t r = 0; r < prices.size(); ++r)
    upto[r + 1] = upto[r] + static_cast<Wide>(std::ldexp(prices[r], kShift + kMultiplierBits));
  return upto;
}

/// The model without rows, its usages priced into the costs.
Model without_rows(const Model& model, const Multipliers& upto) {
  Model result;
  result.nodes = model.nodes;
  result.edges = model.edges;
  for (ModelNode& node : result.nodes) {
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      Wide price = 0;
      for (const Piece& piece : node.pieces)
        price += (upto[piece.to] - upto[piece.from]) * piece.amounts[s];
      if (node.costs[s] < kNever)
        node.costs[s] = (node.costs[s] << kShift) + static_cast<Cost>(price >> kMultiplierBits);
    }
    node.pieces.clear();
    node.normal = true;
  }
  for (ModelEdge& edge : result.edges)
    for (Cost& cost : edge.costs)
      if (cost < kNever) cost <<= kShift;
  return result;
}

Cost price_of_room(const Model& model, const Multipliers& upto) {
  Wide sum = 0;
  for (std::size_t r = 0; r < model.slack.size(); ++r)
    sum += (upto[r + 1] - upto[r]) * model.slack[r];
  return static_cast<Cost>((sum + (Wide{1} << kMultiplierBits) - 1) >> kMultiplierBits);
}

/// Largest cost that scaling leaves well below infinity.
bool scalable(const Model& model) {
  double sum = 0;
  auto add = [&](const std::vector<Cost>& costs) {
    double largest = 0;
    for (Cost c : costs)
      if (c < kNever) largest = std::max(largest, std::abs(static_cast<double>(c)));
    sum += largest;
  };
  for (const ModelNode& node : model.nodes)
    if (node.alive) add(node.costs);
  for (const ModelEdge& edge : model.edges)
    if (edge.alive) add(edge.costs);
  return std::ldexp(sum, kShift) < 1e17;
}

class Pricing {
 public:
  Pricing(const Model& model, const Options& options, const Deadline& deadline)
      : model_(model),
        options_(options),
        deadline_(deadline),
        most_(largest_usage(model)),
        prices_(model.slack.size(), 0) {}

  std::optional<Priced> run(int trials) {
    for (int k = 0; k < trials && !deadline_.passed(); ++k) {
      if (!trial()) return k == 0 ? std::nullopt : std::optional<Priced>(std::move(best_));
      if (k == 0 && best_.choice.empty()) use_least();
      if (close() || step_ < kTuning.lagrange.smallest_step) break;
      move_prices();
    }
    if (best_.choice.empty()) raise_prices();
    return std::move(best_);
  }

 private:
  /// Solves for the current prices. False if that is too wide.
  bool trial() {
    limit_prices();
    Multipliers upto = running_sums(prices_);
    Model priced = without_rows(model_, upto);
    presolve(priced, options_, deadline_);
    eliminate_components(priced, options_.methods.elimination_cells, deadline_);
    if (!live_nodes(priced).empty()) return false;
    std::vector<int> choice(model_.nodes.size(), 0);
    postsolve(priced, choice);
    value_ = priced.constant - price_of_room(model_, upto);
    Cost bound = value_ >> kShift;
    if (Cost rounding = value_ & ((Cost{1} << kShift) - 1)) bound += rounding > 0;
    over_ = excess(model_, choice);
    if (bound > best_.bound)
      best_.bound = bound, best_prices_ = prices_, best_over_ = over_, idle_ = 0;
    else
      ++idle_;
    consider(std::move(choice));
    return true;
  }

  /// Usages must not be priced so high that sums leave 64 bits: a row that is exceeded by little
  /// otherwise gets any price. Lower prices are as good a bound.
  void limit_prices() {
    double sum = 0;
    for (std::size_t r = 0; r < prices_.size(); ++r)
      sum += prices_[r] * static_cast<double>(most_[r] + std::abs(model_.slack[r]));
    if (sum > kLargestSum)
      for (double& price : prices_) price *= kLargestSum / sum;
  }

  bool close() const {
    if (best_.cost >= kNever) return false;
    const double gap = static_cast<double>(best_.cost) - static_cast<double>(best_.bound);
    return gap <= options_.limits.relative_gap * std::abs(static_cast<double>(best_.cost));
  }

  /// Considers the choices that use least where the last one exceeds the slack most. Throws
  /// Contradiction if even they exceed it.
  void use_least() {
    std::vector<Cost> over = over_;
    for (int k = 0;
         k < kTuning.lagrange.least_usages && best_.choice.empty() && !deadline_.passed(); ++k) {
      const auto worst = std::max_element(over.begin(), over.end());
      const int row = static_cast<int>(worst - over.begin());
      if (*worst <= 0) return;
      Model usage = usage_at(model_, row);
      presolve(usage, options_, deadline_);
      eliminate_components(usage, options_.methods.elimination_cells, deadline_);
      if (!live_nodes(usage).empty()) return;
      const Cost missing = usage.constant - model_.slack[row];
      if (missing > 0) throw Contradiction{missing, model_.times[row]};
      std::vector<int> choice(model_.nodes.size(), 0);
      postsolve(usage, choice);
      over = excess(model_, choice);
      consider(std::move(choice));
    }
  }

  /// Higher and higher prices until a feasible choice is found.
  void raise_prices() {
    for (double factor = kTuning.lagrange.first_rise;
         factor < kTuning.lagrange.last_rise && best_.choice.empty() && !deadline_.passed();
         factor *= kTuning.lagrange.rise) {
      prices_ = best_prices_;
      for (double& price : prices_) price *= factor;
      if (!trial()) return;
    }
  }

  void consider(std::vector<int> choice) {
    if (!repair(model_, choice, kTuning.lagrange.repair_moves, deadline_)) return;
    improve(model_, choice, deadline_);
    Cost cost = price(model_, choice);
    if (cost < best_.cost) best_.cost = cost, best_.choice = std::move(choice);
  }

  /// Polyak's step towards the best cost; smaller steps from the best prices when the bound stalls.
  void move_prices() {
    if (idle_ >= kTuning.lagrange.patience)
      step_ *= kTuning.lagrange.shrink, prices_ = best_prices_, over_ = best_over_,
                                        value_ = best_.bound << kShift, idle_ = 0;
    double norm = 0;
    for (std::size_t r = 0; r < over_.size(); ++r)
      if (over_[r] > 0 || prices_[r] > 0)
        norm += static_cast<double>(over_[r]) * static_cast<double>(over_[r]);
    if (norm <= 0) {
      step_ = 0;
      return;
    }
    double current = std::ldexp(static_cast<double>(value_), -kShift);
    double target = best_.cost < kNever ? static_cast<double>(best_.cost)
                                        : current + kTuning.lagrange.goal * std::abs(current) + 1;
    double scale = step_ * std::max(target - current, 1.0) / norm;
    for (std::size_t r = 0; r < over_.size(); ++r)
      prices_[r] = std::max(0.0, prices_[r] + scale * static_cast<double>(over_[r]));
  }

  const Model& model_;
  const Options& options_;
  const Deadline& deadline_;
  const std::vector<Cost> most_;  // what the rows could be used at most
  std::vector<double> prices_, best_prices_;
  std::vector<Cost> over_, best_over_;  // excess of the rows at the last and at the best prices
  Cost value_ = 0;                      // scaled bound at the last prices
  double step_ = 1;
  int idle_ = 0;
  Priced best_;
};

}  // namespace

std::optional<Priced> price_rows(const Model& model, const Options& options, int trials,
                                 const Deadline& deadline) {
  if (model.slack.empty() || !scalable(model)) return std::nullopt;
  if (has_terms(model)) return price_rows(with_copies(model), options, trials, deadline);
  return Pricing(model, options, deadline).run(trials);
}

}  // namespace alpa::ilp
