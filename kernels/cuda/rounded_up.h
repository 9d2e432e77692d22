#pragma once
/// Sizes of scratch memory, which is handed out in units.
#include <cstdint>

namespace alpa::cuda {

/// The least multiple of `unit` that is not below `size`.
constexpr std::int64_t rounded_up(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

}  // namespace alpa::cuda
