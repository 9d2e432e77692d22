#pragma once
/// Progress of planning.
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace alpa {

/// The best plan so far and what is proven. Under a memory budget, planning first looks for the
/// best plan without it; if that plan exceeds the budget, it begins again with plans that keep it.
struct PlanningProgress {
  /// Seconds of a step under the best plan so far; infinite: none yet.
  double best_seconds = std::numeric_limits<double>::infinity();
  double lower_bound_seconds = 0;  ///< proven: no plan on any mesh takes less
  double elapsed_seconds = 0;      ///< since planning began
  /// mesh shape of the best plan so far, e.g. 2x4; empty: none yet
  std::string mesh = {};
  /// a device may use for the plans meant; none: any plan is
  std::optional<std::int64_t> bytes = {};

  /// (best - lower bound) / best; 1 while there is no plan.
  double gap() const {
    if (best_seconds == std::numeric_limits<double>::infinity()) return 1;
    return best_seconds > 0 ? (best_seconds - lower_bound_seconds) / best_seconds : 0;
  }
};

/// Called on the planning thread whenever the best plan or the bound improves. Must not
/// throw; planning waits for it.
using ProgressCallback = std::function<void(const PlanningProgress&)>;

}  // namespace alpa
