#pragma once
/// Tables by size, read in logarithms.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace alpa::cost {

/// Where x lies in ascending sizes: between two entries, and how far from the first to the second.
/// Beyond the ends it is at the end.
struct LogPosition {
  std::size_t below = 0, above = 0;
  double share = 0;
};

inline LogPosition log_position(const std::vector<std::int64_t>& sizes, double x) {
  if (sizes.size() < 2) return {};
  std::size_t below = 0;
  while (below + 2 < sizes.size() && static_cast<double>(sizes[below + 1]) <= x) ++below;
  const double low = std::log2(static_cast<double>(sizes[below])),
               high = std::log2(static_cast<double>(sizes[below + 1]));
  return {below, below + 1,
          std::clamp((std::log2(std::max(x, 1.0)) - low) / (high - low), 0.0, 1.0)};
}

}  // namespace alpa::cost
