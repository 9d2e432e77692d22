#pragma once
/// Ascent of the dual bound with multipliers, and the feasible choices met on the way.
#include "src/ilp/dual/dual.h"
#include "src/ilp/model/options.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {

struct Ascent {
  Dual::Exact exact;  ///< the best proven bound, with what it needs for fixing
  /// best feasible choice of the live nodes; empty: none cheaper than the cutoff
  std::vector<int> choice;
  Cost cost = kNever;                 ///< of `choice`, or the cutoff
  std::vector<std::vector<int>> met;  ///< the last feasible choices, improved; none without rows
};

/// Ascends from the state of `dual` for at most `sweeps` sweeps, or until the bound proves that
/// nothing is cheaper than the best choice by the relative `gap`, or until it stalls; leaves `dual`
/// in its best state. `cutoff`: cost of a choice known before, or above which none is of use.
/// `step` is how far the multipliers move at first; it falls until the last sweep or the deadline.
Ascent ascend(const Model& model, Dual& dual, int sweeps, Cost cutoff, double gap, double step,
              const Deadline& deadline);

}  // namespace alpa::ilp
