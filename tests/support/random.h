#pragma once
/// Random choices of property tests.
#include <cstdint>
#include <random>

namespace alpa::testing {

using Random = std::mt19937_64;

/// From 0 to n - 1.
inline int below(Random& random, int n) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(n));
}

}  // namespace alpa::testing
