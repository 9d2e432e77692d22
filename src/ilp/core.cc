#include "core.h"

#include <algorithm>

#include "ascent.h"
#include "branch.h"
#include "eliminate.h"
#include "lagrange.h"
#include "reduce.h"

namespace alpa::ilp {
namespace {

/// State of the search: a model in which every choice cheaper than the best known one survives.
class Core {
 public:
  Core(Model model, const Options& options, const Deadline& deadline, Statistics& statistics)
      : model_(std::move(model)), options_(options), deadline_(deadline), statistics_(statistics) {}

  CoreSolution run() {
    try {
      if (options_.reductions.elimination) try_prices();
      if (options_.dual_sweeps > 0 && options_.reductions.arc_consistency) tighten();
      if (!done() && options_.use_cbc) branch_rest();
      if (live_nodes(model_).empty())
        take(std::vector<int>(model_.nodes.size(), 0)), best_.bound = best_.cost;
    } catch (const Contradiction&) {
      if (best_.choice.empty()) throw;
      best_.bound = best_.cost;  // nothing cheaper exists
    }
    if (best_.choice.empty()) throw TimedOut("no feasible choice was found in time; allow more seconds");
    return std::move(best_);
  }

 private:
  bool done() const {
    if (live_nodes(model_).empty() || deadline_.passed()) return true;
    if (best_.choice.empty()) return false;
    double gap = static_cast<double>(best_.cost - best_.bound) /
                 std::max(1.0, std::abs(static_cast<double>(best_.cost)));
    return best_.bound >= best_.cost || gap <= options_.relative_gap;
  }

  /// Keeps a choice of the live nodes if it is the best so far.
  void take(std::vector<int> choice) {
    Cost cost = plus(model_.constant, price(model_, choice));
    if (cost >= best_.cost) return;
    replay(model_, choice);
    best_.choice = std::move(choice);
    best_.cost = cost;
  }

  std::int64_t strategies() const {
    std::int64_t sum = 0;
    for (int i : live_nodes(model_)) sum += model_.nodes[i].size();
    return sum;
  }

  /// Exact solutions under prices of the rows, where elimination allows them; at most a third of the time.
  void try_prices() {
    double before = deadline_.elapsed();
    auto priced = price_rows(model_, options_, 40, Deadline(deadline_.left() / 3));
    if (priced && !priced->choice.empty()) take(priced->choice);
    if (priced) best_.bound = std::max(best_.bound, model_.constant + priced->bound);
    statistics_.dual_seconds += deadline_.elapsed() - before;
  }

  /// Bound, fixing and reductions in turn as long as the model shrinks.
  void tighten() {
    double before = deadline_.elapsed();
    for (std::int64_t size = strategies(); !done(); size = strategies()) {
      if (!ascend_once() || !shrink() || strategies() > size * 9 / 10) break;
    }
    statistics_.dual_seconds += deadline_.elapsed() - before;
  }

  /// Returns false if nothing could be fixed.
  bool ascend_once() {
    Dual dual(model_);
    Ascent ascent = ascend(model_, dual, options_.dual_sweeps, relative(best_.cost), deadline_);
    if (!ascent.choice.empty()) take(ascent.choice);
    best_.bound = std::max(best_.bound, model_.constant + ascent.exact.proven());
    return !done() && !best_.choice.empty() && dual.fix(model_, ascent.exact, relative(best_.cost)) > 0;
  }

  Cost relative(Cost cost) const { return cost >= kNever ? kNever : cost - model_.constant; }

  bool shrink() {
    reduce(model_, options_, deadline_);
    if (options_.reductions.elimination)
      eliminate_components(model_, options_.elimination_cells, deadline_);
    return true;
  }

  void branch_rest() {
    std::optional<Cost> cutoff;
    if (!best_.choice.empty()) cutoff = relative(best_.cost);
    Branched result = branch(model_, cutoff, deadline_, statistics_);
    if (result.closed && !result.choice && !cutoff) throw Contradiction{};
    if (result.choice) take(*std::move(result.choice));
    if (result.closed)
      best_.bound = best_.cost;
    else if (result.bound > -kNever)
      best_.bound = std::max(best_.bound, model_.constant + result.bound);
  }

  Model model_;
  const Options& options_;
  const Deadline& deadline_;
  Statistics& statistics_;
  CoreSolution best_;
};

}  // namespace

CoreSolution solve_core(Model model, const Options& options, const Deadline& deadline,
                        Statistics& statistics) {
  return Core(std::move(model), options, deadline, statistics).run();
}

}  // namespace alpa::ilp
