#pragma once
/// Holds planning to the time that the user gives it.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/work_watch.h"

namespace alpa {

/// Keeps the phases of one planning call and what they took. One thread.
class PlanningClock {
 public:
  /// Of a call that may take `limit` seconds beside tracing, and `kOvertimeSeconds` more.
  explicit PlanningClock(double limit) : limit_(limit) {}

  /// The time since the last phase was spent on this one. Throws Error with all phases if planning
  /// takes too long.
  void finished(std::string_view phase);

  /// True if the limit has passed, by more than what is allowed.
  bool is_late() const;

  /// "solver_seconds is 3, but planning took 9.2 s: 3.1 s tracing, …; raise solver_seconds, or …".
  std::string text() const;

 private:
  static constexpr std::string_view kTracing = "tracing";

  double limit_, last_ = 0;
  WorkWatch watch_;
  std::vector<std::pair<std::string_view, double>> phases_;  ///< seconds, in the order of the first
};

}  // namespace alpa
