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

/// The bound of the reduced model, without its constant.
Cost ascended(const Model& model, int sweeps) {
  Dual dual(model);
  double best = -kInfinity;
  for (int idle = 0; sweeps > 0 && idle < kTuning.dual_bound.idle_sweeps; --sweeps) {
    dual.sweep();
    const double bound = dual.bound();
    idle = bound > best + kTuning.dual_bound.least_rise * std::max(1.0, bound) ? 0 : idle + 1;
    best = std::max(best, bound);
  }
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
    return std::max(model.constant + ascended(model, sweeps),
                    plus(model.constant, least_cost(model)));
  } catch (const Contradiction&) {
    return kInfinite;
  }
}

}  // namespace alpa::ilp
