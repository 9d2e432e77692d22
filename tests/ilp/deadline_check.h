#pragma once
/// How late the solver is.
#include <chrono>
#include <ctime>

#include "src/ilp/solve.h"

namespace alpa::ilp::testing {

/// Seconds of this thread's processor: a busy machine does not count as lateness.
inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What a solve with this limit takes beyond it, whatever it answers. A choice is
/// checked by `solve` itself.
inline double seconds_beyond(const Problem& problem, double limit) {
  Options options;
  options.limits.seconds = limit;
  const double before = processor_seconds();
  try {
    solve(problem, options);
  } catch (const Infeasible&) {
  } catch (const TimedOut&) {
  }
  return processor_seconds() - before - limit;
}

}  // namespace alpa::ilp::testing
