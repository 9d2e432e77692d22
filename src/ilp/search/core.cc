// The search on the reduced model: the order of bounds, fixing, branching and large neighbourhood
// search
#include "src/ilp/search/core.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "src/ilp/eliminate/eliminate.h"
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/reduce/presolve.h"
#include "src/ilp/search/ascent.h"
#include "src/ilp/search/branch.h"
#include "src/ilp/search/dive.h"
#include "src/ilp/search/large_neighbourhood_search.h"
#include "src/ilp/search/least_excess.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {
namespace {

/// A few dives even after the deadline; more before the dual bound and CBC are tried, for so long;
/// afterwards as many as there is time for.
constexpr int kAllDives = std::numeric_limits<int>::max();

/// The model with the strategies of the choices only.
Model restricted(const Model& model, const std::vector<std::vector<int>>& choices) {
  Model result = model;
  result.trail.clear();
  for (int i : live_nodes(model)) {
    std::vector<int> kept;
    for (const std::vector<int>& choice : choices) kept.push_back(choice[i]);
    kept = distinct(std::move(kept));
    if (static_cast<int>(kept.size()) < model.nodes[i].size()) keep_strategies(result, i, kept);
  }
  return result;
}

/// State of the search. `model_` starts as the model given and shrinks: every choice cheaper than
/// `wanted` survives, and its trail leads back to the live nodes of the model given.
class Core {
 public:
  Core(const Model& given, Cost cutoff, const Options& options, const Deadline& deadline,
       Statistics& statistics)
      : given_(given),
        model_(given),
        options_(options),
        cutoff_(options.limits.cutoff < kInfinite ? options.limits.cutoff : kNever),
        deadline_(deadline),
        grace_(options.limits.grace ? deadline.with_grace() : deadline),
        statistics_(statistics) {
    model_.trail.clear();
    best_.cost = cutoff;
    multipliers_ = options.usage_prices;
    if (!multipliers_.empty()) step_ = kTuning.core.known_step;
  }

  CoreSolution run(std::vector<int> start) {
    search(std::move(start));
    best_.usage_prices = std::move(multipliers_);
    return std::move(best_);
  }

 private:
  void search(std::vector<int> start) {
    try {
      raise_bound(plus(model_.constant, least_cost(model_)));
      if (best_.bound >= kNever) throw Contradiction{};
      if (!start.empty()) take(std::move(start));
      if (is_cut_off()) return;
      find_first(kTuning.core.first_dives, grace_);
      if (!has_copies(model_))
        find_first(kAllDives,
                   deadline_.within(std::min(kTuning.core.first_seconds,
                                             deadline_.left() * kTuning.core.first_share)));
      const bool dual =
          options_.methods.dual_sweeps > 0 && options_.methods.presolve.arc_consistency;
      if (dual && has_copies(model_) && best_.cost >= kNever) fill_rows();
      if (dual) tighten();
      const bool later = has_terms(model_) && dual && options_.methods.large_neighbourhood_search;
      if (!done() && !later && can_branch()) branch_rest();
      if (best_.cost >= kNever) {
        find_first(kAllDives, grace_);
        if (dual) tighten();
      }
      while (dual && options_.methods.large_neighbourhood_search && !done() &&
             !best_.choice.empty()) {
        search_neighbourhoods();
        tighten();
        if (later && round_ % kTuning.core.rounds_to_branch == 0 && !done() && can_branch())
          branch_rest();
      }
      if (live_nodes(model_).empty())
        take(std::vector<int>(model_.nodes.size(), 0)), raise_bound(wanted());
    } catch (const Contradiction&) {
      if (best_.choice.empty() && cutoff_ >= kNever) throw;
      raise_bound(wanted());  // nothing cheaper exists
    }
  }

  /// Only cheaper choices are looked for.
  Cost wanted() const { return std::min(best_.cost, cutoff_); }
  bool is_cut_off() const { return best_.bound >= cutoff_; }

  bool done() const {
    if (deadline_.passed() || is_cut_off() || live_nodes(model_).empty()) return true;
    if (best_.cost >= kNever) return false;
    double gap = static_cast<double>(best_.cost - best_.bound);
    const double enough = is_modest()
                              ? std::max(options_.limits.relative_gap, options_.limits.modest_gap)
                              : options_.limits.relative_gap;
    return gap <= enough * std::abs(static_cast<double>(best_.cost));
  }

  /// `Limits::modest_gap` is enough.
  bool is_modest() const {
    const double elapsed = deadline_.elapsed();
    return ascents_ > 0 && elapsed >= options_.limits.modest_share * (elapsed + deadline_.left());
  }

  /// A choice of the model given at this cost, without its constant, ends the search.
  Cost enough() const {
    const double bound = static_cast<double>(best_.bound);
    const double most = bound / (1 - std::min(options_.limits.relative_gap, 0.9));
    return (bound > 0 ? static_cast<Cost>(most) : best_.bound) - given_.constant;
  }

  /// Keeps a choice of the live nodes if it is the best so far.
  void take(std::vector<int> choice) {
    Cost cost = plus(model_.constant, price(model_, choice));
    if (cost >= best_.cost) return;
    postsolve(model_, choice);
    choice.resize(given_.nodes.size());
    best_.choice = std::move(choice);
    best_.cost = cost;
    report();
  }

  void raise_bound(Cost bound) {
    if (bound <= best_.bound) return;
    best_.bound = bound;
    report();
  }

  /// Until a choice is found, the cost is one known from elsewhere, plus one.
  void report() const {
    if (!options_.progress || best_.choice.empty()) return;
    options_.progress(best_.cost, std::min(best_.cost, best_.bound));
  }

  std::int64_t strategies() const {
    std::int64_t sum = 0;
    for (int i : live_nodes(model_)) sum += model_.nodes[i].size();
    return sum;
  }

  static std::int64_t cells(const Model& model) {
    std::int64_t sum = 0;
    for (const ModelEdge& edge : model.edges) sum += static_cast<std::int64_t>(edge.costs.size());
    for (const SharedTerm& term : model.terms)
      sum += static_cast<std::int64_t>(term.costs.size() * (term.readers.size() + 1));
    return sum;
  }

  bool can_branch() const {
    const auto size = static_cast<double>(cells(model_));
    return has_cbc() && options_.methods.use_cbc && size <= kTuning.core.branch_cells &&
           deadline_.left() > kTuning.core.branch_seconds_per_cell * size;
  }

  /// The time limit ends the search for better choices; a first one is sought a little longer.
  void find_first(int dives, const Deadline& deadline) {
    if (best_.cost < kNever || live_nodes(model_).empty()) return;
    std::vector<int> choice = first_choice(model_, dives, deadline);
    if (choice.empty()) return;
    improve(model_, choice, deadline_.within(deadline_.left() / 4));
    take(std::move(choice));
  }

  /// A first choice, or a proof that no choice fits the rows.
  void fill_rows() {
    LeastExcess least = least_excess(model_, remembered_multipliers(), options_,
                                     deadline_.within(deadline_.left() / 2));
    if (least.choice.empty() && least.bound > 0) throw Contradiction{least.bound, least.time};
    if (least.choice.empty()) return;
    improve(model_, least.choice, deadline_.within(deadline_.left() / 4));
    take(std::move(least.choice));
  }

  /// Bound, fixing and reductions in turn as long as the model shrinks or the gap does.
  void tighten() {
    double before = deadline_.elapsed();
    for (bool again = true; again && !done();) {
      std::int64_t size = strategies();
      double gap = static_cast<double>(best_.cost) - static_cast<double>(best_.bound);
      if (!ascend_once()) break;
      double new_gap = static_cast<double>(best_.cost) - static_cast<double>(best_.bound);
      again = strategies() <
                  static_cast<std::int64_t>(kTuning.core.worth_again * static_cast<double>(size)) ||
              new_gap < kTuning.core.worth_again * gap ||
              (has_copies(model_) && best_.choice.empty());
      again &= deadline_.elapsed() - before < deadline_.left();  // leave as much for the rest
    }
  }

  /// Returns false if there is nothing more to gain from the dual bound for now.
  bool ascend_once() {
    const double before = deadline_.elapsed();
    Dual dual(model_);
    deadline_.spend(2 * dual.cells_of_sweep());
    const double making = deadline_.elapsed() - before;
    if (deadline_.left() < kTuning.core.dual_rounds * making) return false;
    dual.set_multipliers(remembered_multipliers());
    Ascent ascent =
        ascend(model_, dual, std::min(sweeps_, options_.methods.dual_sweeps), relative(wanted()),
               best_.cost <= cutoff_ ? options_.limits.relative_gap : 0, step_,
               deadline_.within(deadline_.left() / 2));
    sweeps_ = std::min(kTuning.ascent.more_sweeps * sweeps_,
                       std::max(sweeps_, options_.methods.dual_sweeps));
    ++ascents_;
    remember(dual.multipliers());
    dual.remember_splits(model_);
    step_ = std::max(kTuning.ascent.shrink * step_, kTuning.ascent.least_step);
    if (!ascent.choice.empty()) take(ascent.choice);
    raise_bound(model_.constant + ascent.exact.proven());
    if (done()) return false;
    mix(std::move(ascent.met),
        deadline_.within(kTuning.core.mix_share * (deadline_.elapsed() - before)));
    const bool known = wanted() < kNever;
    const double fixing = known ? dual.cells_of_exact() : 0;
    if (known) {
      dual.fix(model_, ascent.exact, relative(wanted()));
      deadline_.spend(kTuning.core.fixing * fixing);
      presolve(model_, options_, deadline_);
    }
    if (options_.methods.presolve.elimination)
      eliminate(model_, options_.methods.elimination_cells, deadline_);
    return known || has_copies(model_);  // whose roundings under better prices are the best dives
  }

  /// Takes the cheapest of `choices`, and looks for the best mixture of them and the best choice:
  /// every node has a strategy that one of them gives it. Where they agree nothing is left to
  /// decide, so that the mixture of many differing parts, which only together keep the rows, is
  /// found at once.
  void mix(std::vector<std::vector<int>> choices, const Deadline& deadline) {
    if (!options_.methods.large_neighbourhood_search || has_terms(model_) || choices.empty() ||
        best_.choice.empty())
      return;
    if (std::vector<int> best = carry_over(model_, best_.choice, deadline); !best.empty())
      choices.push_back(std::move(best));
    const auto cheapest = std::min_element(
        choices.begin(), choices.end(),
        [&](const auto& a, const auto& b) { return price(model_, a) < price(model_, b); });
    take(*cheapest);
    for (int e : live_edges(model_))
      deadline.spend(static_cast<double>(model_.edges[e].costs.size()));
    try {
      std::vector<int> choice =
          solve_inner(restricted(model_, choices), plus(price(model_, *cheapest), model_.constant),
                      inner_options(options_), deadline);
      if (choice.empty()) return;
      improve(model_, choice, deadline_);
      take(std::move(choice));
    } catch (const Contradiction&) {  // the cheapest is the best mixture
    }
  }

  /// Multipliers survive reductions by the time of their rows.
  std::vector<double> remembered_multipliers() const {
    std::vector<double> result;
    for (std::int64_t time : model_.times) {
      auto found = multipliers_.find(time);
      result.push_back(found == multipliers_.end() ? 0 : found->second);
    }
    return result;
  }

  void remember(const std::vector<double>& multipliers) {
    multipliers_.clear();
    for (std::size_t r = 0; r < multipliers.size(); ++r)
      if (multipliers[r] > 0) multipliers_[model_.times[r]] = multipliers[r];
  }

  Cost relative(Cost cost) const { return cost >= kNever ? kNever : cost - model_.constant; }

  void branch_rest() {
    std::optional<Cost> cutoff;
    if (wanted() < kNever) cutoff = relative(wanted());
    Model whole = has_terms(model_) ? with_copies(model_) : model_;
    if (has_terms(model_) && static_cast<double>(cells(whole)) >
                                 kTuning.core.branch_part_with_copies * kTuning.core.branch_cells)
      return;
    Branched result =
        branch(std::move(whole), cutoff,
               deadline_.within(deadline_.left() * kTuning.branch.share - 0.1), statistics_);
    if (result.closed && !result.choice && best_.choice.empty()) throw Contradiction{};
    if (result.choice) take(*std::move(result.choice));
    if (result.closed)
      raise_bound(wanted());
    else if (result.bound > -kNever)
      raise_bound(model_.constant + result.bound);
  }

  /// Improves the best choice on the model given for a while.
  void search_neighbourhoods() {
    Cost before = best_.cost;
    const double least =
        has_terms(given_) ? std::ldexp(kTuning.core.first_pause, round_) : kTuning.core.least_pause;
    const double share = has_terms(given_) ? std::min(least, deadline_.left() / 3)
                                           : std::max(least, deadline_.left() / 3);
    const Deadline pause = deadline_.within(share);
    best_.cost = given_.constant + large_neighbourhood_search(given_, best_.choice, options_,
                                                              round_++, enough(), pause);
    if (best_.cost >= before) return;
    step_ = std::max(step_, kTuning.ascent.least_step);
    report();
  }

  const Model& given_;
  Model model_;
  const Options& options_;
  const Cost cutoff_;  ///< kNever: none
  const Deadline& deadline_;
  const Deadline grace_;
  Statistics& statistics_;
  CoreSolution best_;
  std::map<std::int64_t, double> multipliers_;
  double step_ = kTuning.ascent.first_step;
  int sweeps_ = kTuning.ascent.first_sweeps;  ///< of the next ascent
  int round_ = 0, ascents_ = 0;
};

}  // namespace

CoreSolution solve_core(const Model& model, Cost cutoff, std::vector<int> start,
                        const Options& options, const Deadline& deadline, Statistics& statistics) {
  return Core(model, cutoff, options, deadline, statistics).run(std::move(start));
}

Options inner_options(Options options) {
  options.methods.large_neighbourhood_search = false;
  options.limits.cutoff = kInfinite;
  options.progress = nullptr;
  options.usage_prices.clear();
  return options;
}

std::vector<int> solve_inner(Model model, Cost cutoff, const Options& options,
                             const Deadline& deadline) {
  presolve(model, options, deadline);
  eliminate(model, options.methods.elimination_cells / 4, deadline);
  Statistics ignored;
  CoreSolution better = solve_core(model, cutoff, {}, options, deadline, ignored);
  if (!better.choice.empty()) postsolve(model, better.choice);
  return std::move(better.choice);
}

}  // namespace alpa::ilp
