#pragma once
/// Ascent of the dual bound with multipliers, and the feasible choices met on the way.
#include "alpa/ilp/solve.h"
#include "dual.h"

namespace alpa::ilp {

struct Ascent {
  Dual::Exact exact;        ///< the best proven bound, with what it needs for fixing
  std::vector<int> choice;  ///< best feasible choice of the live nodes; empty: none cheaper than the cutoff
  Cost cost = kNever;       ///< of `choice`, or the cutoff
};

/// Ascends from the state of `dual` for at most `sweeps` sweeps, or until the bound proves that nothing is
/// cheaper than the best choice, or until it stalls; leaves `dual` in its best state. `cutoff`: cost of a
/// choice known before.
Ascent ascend(const Model& model, Dual& dual, int sweeps, Cost cutoff, const Deadline& deadline);

}  // namespace alpa::ilp
