#pragma once

namespace alpa::kernels {

/// Longest vector of any CPU instruction set: alignment and padding of every scratch buffer.
inline constexpr int kVectorBytes = 64;

}  // namespace alpa::kernels
