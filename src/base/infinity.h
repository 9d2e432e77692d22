#pragma once
/// Infinity as a number of seconds, of work or of anything else that has no upper bound.
#include <limits>

namespace alpa {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace alpa
