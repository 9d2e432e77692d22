#pragma once
/// How partial results are combined into the whole result.
#include <cstdint>
#pragma GCC visibility push(default)

namespace alpa {

/// How partial results are combined. Each is associative; -∞ is neutral to all but sums.
enum class Combiner : std::uint8_t {
  sum,          ///< a + b
  max,          ///< the larger of a and b
  log_sum_exp,  ///< log(e^a + e^b), of floating elements
};

/// All of them.
inline constexpr Combiner kCombiners[] = {Combiner::sum, Combiner::max, Combiner::log_sum_exp};

}  // namespace alpa
#pragma GCC visibility pop
