#pragma once
/// Numbers in few bits by their definitions: bitsandbytes' `create_dynamic_map`, and rounding to
/// bf16 at random.
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/base/half.h"

namespace alpa::testing {

/// The 256 values in ascending order: the middles of equal parts of seven decades, 0 and 1.
inline std::vector<double> dynamic_map(bool is_signed) {
  std::vector<double> values = {0, 1};
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = (is_signed ? 1 : 2) << decade;
    for (int part = 0; part < parts; ++part) {
      const double value = std::pow(10, decade - 6) * (0.1 + 0.9 * (part + 0.5) / parts);
      values.push_back(value);
      if (is_signed) values.push_back(-value);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

template <bool is_signed>
double dynamic_value(double code) {
  static const std::vector<double> values = dynamic_map(is_signed);
  return values.at(static_cast<std::size_t>(code));
}

/// The code of the nearest value.
template <bool is_signed>
double dynamic_code(double x) {
  static const std::vector<double> values = dynamic_map(is_signed);
  const auto nearer = [x](double a, double b) { return std::fabs(a - x) < std::fabs(b - x); };
  return static_cast<double>(std::min_element(values.begin(), values.end(), nearer) -
                             values.begin());
}

/// x rounded towards 0, or away from it, in bf16: away with the share of the way there that x is,
/// or the rest of it, whichever is less, against u.
inline double stochastic_bf16(double x, double u) {
  const double near = to_float(to_bf16(static_cast<float>(x)));
  if (near == x) return near;
  const double place = std::exp2(std::floor(std::log2(std::fabs(x))) - 7);
  const double low = std::floor(x / place) * place, high = low + place;
  const double far = near == low ? high : low;
  return u < std::fabs(x - near) / place ? far : near;
}

}  // namespace alpa::testing
