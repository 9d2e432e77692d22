#pragma once
/// The order of `argmax` and `top_k`, for host and device: NaN is the largest, equal elements keep
/// their order.
#include <cstdint>

#include "kernels/elementwise.h"

namespace alpa::kernels {

/// Whether element a, at index i, comes before element b at index j.
template <class S>
ALPA_HOST_DEVICE inline bool comes_before(S a, std::int64_t i, S b, std::int64_t j,
                                          bool descending) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) {
    if (a_nan != b_nan) return descending ? a_nan : b_nan;
    return i < j;
  }
  if (a != b) return descending ? a > b : a < b;
  return i < j;
}

}  // namespace alpa::kernels
