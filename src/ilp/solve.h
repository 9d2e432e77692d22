#pragma once
/// The solver: exact reductions, dual bound, elimination, and CBC on the rest. Thread-safe;
/// deterministic for a fixed problem and fixed options, unless the time limit ends it.
#include <cstdint>
#include <map>
#include <vector>

#include "alpa/base/error.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

/// The choice found, and the bound proven.
struct Solution {
  std::vector<int> choice;                     ///< one strategy per node
  std::int64_t cost = 0;                       ///< as `evaluate` computes it on the problem given
  std::int64_t lower_bound = 0;                ///< proven: no feasible choice costs less
  bool optimal = false;                        ///< cost == lower_bound
  std::int64_t peak_usage = 0, peak_time = 0;  ///< as `evaluate` computes them
  double seconds = 0;  ///< since `solve` was called; counted in work under a work limit
  Statistics statistics;
  std::map<std::int64_t, double> usage_prices;  ///< under the limit: those of the last bound

  /// (cost - lower_bound) / cost; 0 when optimal.
  double gap() const;
};

/// No choice satisfies the problem.
class Infeasible : public Error {
 public:
  using Error::Error;
  /// Proven: the limit must rise by at least this much; 0: usage is not the reason.
  std::int64_t missing_usage = 0;
  std::int64_t time = 0;    ///< when the usage limit is exceeded
  std::vector<int> choice;  ///< the choice found with the lowest peak; empty: none found
};

/// The time limit passed, or the lower bound reached the cutoff, before a feasible choice or a
/// proof of infeasibility was found.
class TimedOut : public Error {
 public:
  using Error::Error;
  std::int64_t lower_bound = -kInfinite;  ///< proven: no feasible choice costs less
  double seconds = 0;                     ///< as in Solution
};

/// A choice of least cost, or the best found within the time limit with a proven lower
/// bound. Throws Infeasible (by how much and when the usage limit is missed), TimedOut, or
/// Error for a malformed problem.
Solution solve(const Problem& problem, const Options& options = {});

}  // namespace alpa::ilp
