#pragma once
/// Tells the user's callback what improved. One thread.
#include <algorithm>
#include <utility>

#include "alpa/intra_op/planning_progress.h"

namespace alpa {

class PlanningReport {
 public:
  explicit PlanningReport(ProgressCallback callback) : callback_(std::move(callback)) {}

  bool is_wanted() const { return callback_ != nullptr; }

  /// Passes on what is better than all before. Nothing can be lost: a bound never falls, nor does the best
  /// plan get dearer, until another budget begins.
  void tell(PlanningProgress now) {
    if (!callback_) return;
    if (now.bytes != last_.bytes) last_ = {.bytes = now.bytes};
    const bool cheaper = now.best_seconds < last_.best_seconds;
    if (!cheaper) now.best_seconds = last_.best_seconds, now.mesh = last_.mesh;
    now.lower_bound_seconds =
        std::min(now.best_seconds, std::max(now.lower_bound_seconds, last_.lower_bound_seconds));
    if (!cheaper && now.lower_bound_seconds <= last_.lower_bound_seconds) return;
    last_ = now;
    callback_(last_);
  }

 private:
  ProgressCallback callback_;
  PlanningProgress last_;  ///< told
};

}  // namespace alpa
