// A quick lower bound: small reductions and a few sweeps of the dual
#include "src/ilp/dual/dual_bound.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/base/infinity.h"
#include "src/ilp/dual/dual.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/reduce/presolve.h"

namespace alpa::ilp {
namespace {

/// The bound of the reduced model, without its constant. A sweep that raised the bound is followed
/// some way further, as far as that was of use: where many nodes share costs, sweeps alone need
/// ten times as many steps.
Cost ascended(const Model& model, int sweeps, const Deadline& counting) {
  const auto& tuning = kTuning.dual_bound;
  Dual dual(model);
  Dual::State before, best_state;
  double best = -kInfinity, times = 0, most_times = tuning.most_times;
  int rises = 0;
  for (int idle = 0; sweeps > 0 && idle < tuning.idle_sweeps; --sweeps) {
    before = dual.state();
    dual.sweep();
    counting.spend(dual.cells_of_sweep());
    const double bound = dual.bound();
    idle = bound > best + tuning.least_rise * std::max(1.0, bound) ? 0 : idle + 1;
    if (bound > best) {
      best = bound;
      best_state = dual.state();
      if (++rises < tuning.first_sweeps) continue;
      times = std::min(most_times, times + 1);
      dual.extrapolate(before, times);
    } else {
      dual.restore(best_state);
      most_times *= tuning.shorter;
      times = 0;
    }
  }
  dual.restore(best_state);
  return dual.exact().proven();
}

}  // namespace

std::int64_t dual_bound(const Problem& problem, int sweeps) {
  validate(problem);
  invariant(!problem.usage_limit, "dual_bound: the problem has a usage limit");
  const Deadline never(kInfinity);
  Options options;
  options.methods.elimination_cells = kTuning.dual_bound.cells;
  options.methods.presolve.merge = false;
  try {
    Model model = build(problem, true, never);
    presolve(model, options, never);
    if (live_nodes(model).empty()) return model.constant;
    return std::max(model.constant + ascended(model, sweeps, never),
                    plus(model.constant, least_cost(model)));
  } catch (const Contradiction&) {
    return kInfinite;
  }
}

}  // namespace alpa::ilp
