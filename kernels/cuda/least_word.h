#pragma once
/// Comparing random numbers with a probability as 32-bit words. Usable in device code.
#include "src/base/philox.h"

namespace alpa::cuda {

/// The least word whose `unit_interval` is at least p; 2^32 where no word's is. Every step is
/// exact.
ALPA_PHILOX_HOST_DEVICE inline std::uint64_t least_word(double p) {
  const double least = std::ceil(p * 4294967296.0 - 0.5);
  return least <= 0 ? 0 : least < 4294967296.0 ? static_cast<std::uint64_t>(least) : 1ull << 32;
}

}  // namespace alpa::cuda
