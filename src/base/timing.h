#pragma once
/// Measuring time.
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace alpa {

/// Measures wall-clock time from its construction.
class Stopwatch {
 public:
  /// Elapsed wall-clock time.
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// The median: 0 for no values, the mean of the middle two for an even number of values.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// The median of what `timed()` returns, called at least three times and until so
/// many seconds have passed.
template <class Timed>
double median_over(double seconds, Timed&& timed) {
  const Stopwatch watch;
  std::vector<double> rounds;
  while (rounds.size() < 3 || watch.seconds() < seconds) rounds.push_back(timed());
  return median(std::move(rounds));
}

}  // namespace alpa
