// src/ilp/dual_bound.cc — a quick lower bound: small reductions and a few sweeps of the dual
#include "src/ilp/dual_bound.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "dual.h"
#include "presolve.h"
#include "src/base/infinity.h"

namespace alpa::ilp {
namespace {

/// Cells of tables that reductions may build: beyond them a sweep costs more than they spare.
constexpr std::int64_t kCells = 1 << 14;
/// A sweep that raises the bound by less than this share is idle; so many of them end the ascent.
constexpr double kLeastRise = 1e-4;
constexpr int kIdleSweeps = 3;

/// The bound of the reduced model, without its constant.
Cost ascended(const Model& model, int sweeps) {
  Dual dual(model);
  double best = -kInfinity;
  for (int idle = 0; sweeps > 0 && idle < kIdleSweeps; --sweeps) {
    dual.sweep();
    const double bound = dual.bound();
    idle = bound > best + kLeastRise * std::max(1.0, bound) ? 0 : idle + 1;
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
  options.elimination_cells = kCells;
  options.presolve.merge = false;
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
