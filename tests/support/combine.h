#pragma once
/// Combiners of partial results in plain f64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "alpa/base/combiner.h"

namespace alpa::testing {

/// What changes nothing.
inline double identity(Combiner combiner) {
  return combiner == Combiner::sum ? 0 : -std::numeric_limits<double>::infinity();
}

inline double combine(Combiner combiner, double a, double b) {
  if (combiner == Combiner::sum) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  const double largest = std::max(a, b);
  if (combiner == Combiner::max || std::isinf(largest)) return largest;
  return largest + std::log(std::exp(a - largest) + std::exp(b - largest));
}

}  // namespace alpa::testing
