#pragma once
/// How long work has taken, wherever it runs, and what is allowed beyond a limit.
#include <algorithm>
#include <ctime>

#include "src/base/timing.h"

namespace alpa {

/// Seconds beyond its limit that planning may take. Builds that check memory and threads, or are
/// not optimised, take many times as long.
#ifdef NDEBUG
inline constexpr double kOvertimeSeconds = 1;
#else
inline constexpr double kOvertimeSeconds = 30;
#endif

/// Measures from its construction.
class ProcessorWatch {
 public:
  /// Wall-clock time, or the processor time of the process if that is less: time in which other
  /// programs have the processor does not count.
  double seconds() const {
    const double worked = static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC;
    return std::min(wall_.seconds(), worked);
  }

 private:
  Stopwatch wall_;
  std::clock_t begin_ = std::clock();
};

}  // namespace alpa
