#pragma once
/// When a search ends. Not shared between threads.
#include <algorithm>

#include "src/base/infinity.h"
#include "src/base/processor_watch.h"
#include "src/base/timing.h"
#include "src/base/work.h"
#include "src/search/space/auto_shard_options.h"

namespace alpa::intra_op {

/// The end of a search that begins now: after so much work, or, whatever its work, when the clock
/// says so or it is told to stop.
class PlanningTime {
 public:
  explicit PlanningTime(const SearchLimits& limits) : limits_(limits) {}

  /// Seconds of the clock, for texts.
  double elapsed() const { return clock_.seconds(); }
  double clock_left() const { return std::max(0.0, limits_.clock_seconds - elapsed()); }

  /// Work that is left, in seconds.
  double left() const { return is_stopped() || clock_left() <= 0 ? 0 : work_left(); }
  double limit() const { return limits_.seconds; }
  bool is_stopped() const { return limits_.stop != nullptr && *limits_.stop; }
  bool is_over() const { return left() <= 0; }
  /// True if so much time is over that even what a plan needs at least is not begun any more.
  bool is_long_over() const { return overtime_left() < 0; }

  /// Ends the search after so much more work, in seconds, unless it ends earlier.
  void end_within(double seconds) {
    limits_.seconds = std::min(limits_.seconds, work_.seconds() + seconds);
  }

  /// Ends the search after so much more work and so many more seconds on the clock, whatever its
  /// limits were. Not even what a plan needs at least is done behind them.
  void end_after(double work_seconds, double clock_seconds) {
    limits_.seconds = work_.seconds() + work_seconds;
    limits_.clock_seconds = elapsed() + clock_seconds;
    limits_.overtime_seconds = 0;
  }

  /// For a part of the search that begins now, and ends with it at the latest.
  SearchLimits rest() const {
    SearchLimits rest = limits_;
    rest.seconds = work_left();
    rest.clock_seconds = clock_left();
    rest.overtime_seconds = std::max(0.0, overtime_left());
    rest.first_plan_seconds = std::max(0.0, limits_.first_plan_seconds - processor_.seconds());
    return rest;
  }

  /// The same for a first plan, without which the search would have been for nothing.
  SearchLimits rest_for_first_plan() const {
    SearchLimits longer = rest();
    longer.clock_seconds = kInfinity;
    longer.seconds = std::max(longer.seconds, longer.first_plan_seconds);
    return longer;
  }
  bool is_over_for_first_plan() const {
    return is_stopped() || processor_.seconds() >= limits_.first_plan_seconds;
  }

 private:
  double work_left() const { return std::max(0.0, limits_.seconds - work_.seconds()); }

  /// Behind the limits, and before them all that is allowed.
  double overtime_left() const {
    constexpr double kWork = 3;  // in as many seconds: a plan needs them on a slow machine, too
    const double by_work = (limits_.seconds - work_.seconds()) / kWork;
    const double by_clock = limits_.clock_seconds - processor_.seconds();
    return limits_.overtime_seconds + std::min({0.0, by_work, by_clock});
  }

  Stopwatch clock_;
  ProcessorWatch processor_;
  WorkWatch work_;
  SearchLimits limits_;
};

}  // namespace alpa::intra_op
