#pragma once
/// How far a result is from what it should be. What is not a number never
/// passes for a small difference.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "alpa/tensor/array.h"

namespace alpa::testing {

/// |a - b|; 0 where both are the same infinity or both NaN; infinite where only one of them is
/// finite or NaN.
inline double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::abs(a - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

/// Largest distance of an element. Infinite if the sizes differ or a number of either is not
/// finite, even at the same place: what diverged shows nothing.
inline double largest_distance(const std::vector<double>& actual,
                               const std::vector<double>& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual.size() != expected.size()) return kInfinity;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i])) return kInfinity;
    largest = std::max(largest, distance(actual[i], expected[i]));
  }
  return largest;
}

/// The same of arrays. Infinite if their types differ.
inline double largest_distance(const Array& actual, const Array& expected) {
  if (actual.type() != expected.type()) return std::numeric_limits<double>::infinity();
  return largest_distance(actual.to_doubles(), expected.to_doubles());
}

/// Largest |value| of those that are finite, at least `least`.
inline double largest_magnitude(const std::vector<double>& values, double least = 0) {
  for (double value : values)
    if (std::isfinite(value)) least = std::max(least, std::abs(value));
  return least;
}

/// `largest_distance` as a share of the largest |expected|, or of `least_scale` if that is more. If
/// both are 0, the distance itself.
inline double largest_difference(const std::vector<double>& actual,
                                 const std::vector<double>& expected, double least_scale) {
  const double scale = largest_magnitude(expected, least_scale);
  return largest_distance(actual, expected) / (scale > 0 ? scale : 1);
}

}  // namespace alpa::testing
