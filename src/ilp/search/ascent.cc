// The dual bound raised sweep by sweep, with rounded choices improved on the way
#include "src/ilp/search/ascent.h"

#include <algorithm>
#include <cmath>

#include "src/ilp/model/shared_terms.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {
namespace {

class Climber {
 public:
  Climber(const Model& model, Dual& dual, Cost cutoff, double gap, double step,
          const Deadline& deadline)
      : model_(model),
        dual_(dual),
        gap_(gap),
        first_step_(step),
        deadline_(deadline),
        mean_(model.slack.size(), 0) {
    keep_state();
    result_.cost = cutoff;
  }

  Ascent run(int sweeps) {
    const double fall = std::min(1.0, kTuning.ascent.fall / std::max(1, sweeps));
    const double begin = deadline_.elapsed(), time = deadline_.left();
    for (int k = 0; k < sweeps && !deadline_.passed(); ++k) {
      const double done =
          std::max(static_cast<double>(k) / sweeps, (deadline_.elapsed() - begin) / time);
      const double step = first_step_ * std::pow(fall, done);
      if (!model_.slack.empty())
        dual_.set_temperature(kTuning.ascent.temperature * step *
                              dual_.per_node(k == 0 ? dual_.bound() : best_bound_));
      dual_.sweep();
      deadline_.spend(dual_.cells_of_sweep());
      consider(dual_.rounded(), k);
      double bound = dual_.bound();
      bool better =
          bound > best_bound_ + kTuning.ascent.least_rise * std::max(1.0, std::abs(best_bound_));
      if (bound > best_bound_) best_bound_ = bound, keep_state();
      if (is_close()) break;
      idle_ = better ? 0 : idle_ + 1;
      if (model_.slack.empty() && idle_ > kTuning.ascent.patience) break;
      if (!model_.slack.empty()) move_multipliers(bound, step);
    }
    restore();
    result_.exact = dual_.exact();
    deadline_.spend(dual_.cells_of_exact());
    return std::move(result_);
  }

 private:
  /// Without multipliers the bound never falls, so that the last state is the best.
  void keep_state() {
    if (!model_.slack.empty()) best_ = dual_.state();
  }
  void restore() {
    if (!model_.slack.empty()) dual_.restore(best_);
  }

  bool is_close() const {
    const auto cost = static_cast<double>(result_.cost),
               constant = static_cast<double>(model_.constant);
    return std::ceil(best_bound_ - 1e-6) >= cost ||
           (result_.cost < kNever && cost - best_bound_ < gap_ * std::abs(cost + constant));
  }

  /// Raises the prices of rows that are exceeded on average, lowers those of rows with slack.
  void move_multipliers(double bound, double step) {
    const std::vector<double> over = dual_.mean_excess();
    std::vector<double> prices = dual_.multipliers();
    double sum = 0;
    for (std::size_t r = 0; r < over.size(); ++r) {
      mean_[r] = kTuning.ascent.momentum * mean_[r] + (1 - kTuning.ascent.momentum) * over[r];
      if (mean_[r] > 0 || prices[r] > 0) sum += std::abs(mean_[r]) * unit(r);
    }
    if (sum <= 0) return;
    double scale = step * std::max(1.0, std::abs(bound)) / sum;
    for (std::size_t r = 0; r < over.size(); ++r)
      prices[r] = std::max(0.0, prices[r] + scale * mean_[r]);
    dual_.set_multipliers(std::move(prices));
  }

  double unit(std::size_t row) const {
    return std::max(1.0, static_cast<double>(model_.slack[row]));
  }

  /// Takes a rounded choice if it is feasible, or nearly so and can be repaired, and improves it.
  void consider(std::vector<int> choice, int sweep) {
    Cost cost = price(model_, choice);
    bool fine = cost < kNever && fits(model_, choice);
    constexpr int repair_every = kTuning.ascent.repair_every;
    const bool is_turn = sweep % repair_every == repair_every - 1;
    if (!fine && !(is_turn && repaired(choice))) return;
    cost = price(model_, choice);
    const bool look = !model_.slack.empty() && is_turn && sweep / repair_every % 2 == 1;
    if (!look &&
        static_cast<double>(cost) > static_cast<double>(result_.cost) * kTuning.ascent.near_best)
      return;
    if (seen_cost_ == cost) return;
    if (model_.slack.empty() && has_terms(model_) && cost >= best_rounded_ && !is_turn) return;
    best_rounded_ = std::min(best_rounded_, cost);
    seen_cost_ = cost;
    improve(model_, choice, deadline_, dual_.multipliers());
    cost = price(model_, choice);
    if (!model_.slack.empty()) remember(choice);
    if (cost < result_.cost) result_.cost = cost, result_.choice = std::move(choice);
  }

  bool repaired(std::vector<int>& choice) const {
    const int moves =
        has_copies(model_) ? kTuning.ascent.few_repair_moves : kTuning.ascent.repair_moves;
    return repair(model_, choice, moves, deadline_, dual_.multipliers());
  }

  void remember(const std::vector<int>& choice) {
    if (result_.met.size() == kTuning.ascent.met) result_.met.erase(result_.met.begin());
    result_.met.push_back(choice);
  }

  const Model& model_;
  Dual& dual_;
  const double gap_;
  Dual::State best_;  ///< where there are multipliers
  const double first_step_;
  const Deadline& deadline_;
  std::vector<double> mean_;  ///< moving average of the rows' excess
  double best_bound_ = -1e300;
  Cost seen_cost_ = -kNever;
  Cost best_rounded_ = kNever;  ///< before it was improved
  int idle_ = 0;
  Ascent result_;
};

}  // namespace

Ascent ascend(const Model& model, Dual& dual, int sweeps, Cost cutoff, double gap, double step,
              const Deadline& deadline) {
  return Climber(model, dual, cutoff, gap, step, deadline).run(sweeps);
}

}  // namespace alpa::ilp
