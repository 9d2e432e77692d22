#pragma once
/// A call of `rotary`, as CPU and CUDA kernels see it.
#include <cmath>
#include <cstdint>

#include "alpa/base/dtype.h"
#include "kernels/elementwise.h"

namespace alpa {
struct KernelCall;
}

namespace alpa::kernels {

/// A part of x [B, T, H, D]; positions are [T], or [B, T] if `per_row`.
struct RotaryShape {
  DType dtype = DType::f32;
  std::int64_t batch = 1, time = 1, heads = 1, width = 2;
  bool per_row = false, interleaved = false, backward = false, yarn = false;
  static constexpr std::int64_t kMostFactors = 128;
  double factors[kMostFactors] = {};  ///< of pairs, in place of the numbers below; 0: none
  double magnitude = 1;               ///< of cosines and sines
  double base = 10000, factor = 1, original_positions = 0, low_turns = 1, high_turns = 4;
};

RotaryShape rotary_shape(const KernelCall& call);

/// Radians per position of pair i, as `RotaryScaling` has it.
ALPA_HOST_DEVICE inline double rotary_frequency(const RotaryShape& s, std::int64_t i) {
  constexpr double kTurn = 6.283185307179586477;
  const double written =
      ::pow(s.base, -2.0 * static_cast<double>(i) / static_cast<double>(s.width));
  if (s.factors[0] > 0) return written / s.factors[i];
  if (s.original_positions == 0) return written / s.factor;
  const double turns = s.original_positions * written / kTurn;
  double low = s.low_turns, high = s.high_turns, at = turns;
  if (s.yarn) {  // the ramp is linear in the number of the pair, between whole numbers
    const auto pair_of = [&](double of_turns) {
      return static_cast<double>(s.width) * ::log(s.original_positions / (of_turns * kTurn)) /
             (2 * ::log(s.base));
    };
    high = ::fmax(::floor(pair_of(s.high_turns)), 0.0);
    low = ::fmin(::ceil(pair_of(s.low_turns)), static_cast<double>(s.width) - 1);
    if (low == high) low += 0.001;
    at = static_cast<double>(i);
  }
  const double kept = ::fmin(::fmax((at - low) / (high - low), 0.0), 1.0);
  return written * (kept + (1 - kept) / s.factor);
}

}  // namespace alpa::kernels
