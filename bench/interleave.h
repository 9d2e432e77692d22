#pragma once
/// Timing several variants against each other: all variants run once per round, so that drift of
/// the machine hits them alike, and what is reported are medians and per-round ratios to the
/// first variant (the yardstick).
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/timing.h"

namespace alpa::bench {

struct Variant {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};  ///< one per counted round
  int repeats = 1;                   ///< runs of a round, of which the mean counts
};

/// One warm-up round, then `rounds` counted ones. `pause` seconds before each run let the threads
/// of a library that spin after their work (OpenMP's do for milliseconds) go to sleep, so that they
/// do not disturb the next variant.
inline void interleave(std::vector<Variant>& variants, int rounds, double pause = 0) {
  for (int round = -1; round < rounds; ++round) {
    for (Variant& variant : variants) {
      if (pause > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pause));
      const Stopwatch watch;
      for (int i = 0; i < variant.repeats; ++i) variant.run();
      if (round >= 0) variant.seconds.push_back(watch.seconds() / variant.repeats);
    }
  }
}

/// As many runs a round as take about this long, so that waking threads and cold caches count less.
inline void repeat_short_ones(std::vector<Variant>& variants, double seconds = 0.1) {
  for (Variant& variant : variants) {
    variant.run();
    const Stopwatch watch;
    variant.run();
    variant.repeats = std::clamp(static_cast<int>(seconds / watch.seconds()), 1, 1000);
  }
}

/// Median over rounds of variant.seconds / yardstick.seconds.
inline double median_ratio(const Variant& variant, const Variant& yardstick) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < variant.seconds.size(); ++i)
    ratios.push_back(variant.seconds[i] / yardstick.seconds[i]);
  return median(ratios);
}

/// One JSON object per variant and line: name, median and best seconds, ratio to the first variant.
inline void print(const std::vector<Variant>& variants) {
  for (const Variant& variant : variants) {
    fmt::print(
        R"({{"name": "{}", "median_seconds": {:.6g}, "best_seconds": {:.6g}, "ratio": {:.3f}}})"
        "\n",
        variant.name, median(variant.seconds),
        *std::min_element(variant.seconds.begin(), variant.seconds.end()),
        median_ratio(variant, variants.front()));
  }
}

}  // namespace alpa::bench
