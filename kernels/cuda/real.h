#pragma once
/// The numbers that the formulas of kernels/elementwise.h compute with on the device: one float or
/// double, with the operations that those formulas look up by their arguments. Usable on the host
/// and in code compiled at run time.
#include "kernels/cuda/approximate.h"
#include "kernels/cuda/element.h"

namespace alpa::cuda {

template <class S>
struct Real {
  S v;

  Real() = default;
  template <class A>
  ALPA_HOST_DEVICE explicit Real(A x) : v(static_cast<S>(x)) {}

  ALPA_HOST_DEVICE friend Real operator+(Real a, Real b) { return Real(a.v + b.v); }
  ALPA_HOST_DEVICE friend Real operator-(Real a, Real b) { return Real(a.v - b.v); }
  ALPA_HOST_DEVICE friend Real operator*(Real a, Real b) { return Real(a.v * b.v); }
  ALPA_HOST_DEVICE friend Real operator/(Real a, Real b) { return Real(a.v / b.v); }
  ALPA_HOST_DEVICE friend Real operator-(Real a) { return Real(-a.v); }
  ALPA_HOST_DEVICE friend bool operator==(Real a, Real b) { return a.v == b.v; }
  ALPA_HOST_DEVICE friend bool operator>(Real a, Real b) { return a.v > b.v; }
  ALPA_HOST_DEVICE friend bool operator<(Real a, Real b) { return a.v < b.v; }
  ALPA_HOST_DEVICE friend bool operator>=(Real a, Real b) { return a.v >= b.v; }
  ALPA_HOST_DEVICE friend bool operator<=(Real a, Real b) { return a.v <= b.v; }
};

ALPA_HOST_DEVICE inline Real<float> abs(Real<float> x) { return Real<float>(::fabsf(x.v)); }
ALPA_HOST_DEVICE inline Real<float> exp(Real<float> x) { return Real<float>(::expf(x.v)); }
ALPA_HOST_DEVICE inline Real<float> log(Real<float> x) { return Real<float>(::logf(x.v)); }
ALPA_HOST_DEVICE inline Real<float> sqrt(Real<float> x) { return Real<float>(::sqrtf(x.v)); }
ALPA_HOST_DEVICE inline Real<float> tanh(Real<float> x) { return Real<float>(::tanhf(x.v)); }
ALPA_HOST_DEVICE inline Real<float> pow(Real<float> x, Real<float> y) {
  return Real<float>(::powf(x.v, y.v));
}

ALPA_HOST_DEVICE inline Real<float> floor(Real<float> x) { return Real<float>(::floorf(x.v)); }
ALPA_HOST_DEVICE inline Real<float> erf(Real<float> x) { return Real<float>(::erff(x.v)); }

/// Bits 32 i - 1 to 32 i + 30 of 2/π behind the point: as many as floats need.
ALPA_HOST_DEVICE constexpr std::uint32_t two_over_pi(int i) {
  return i == 0   ? 0x28be60db
         : i == 1 ? 0x9391054a
         : i == 2 ? 0x7f09d5f4
         : i == 3 ? 0x7d4d3770
         : i == 4 ? 0x36d8a566
         : i == 5 ? 0x4f10e410
                  : 0;
}

/// An angle in quarters of a turn: whole ones modulo 4, and the rest as an angle up to π/4.
struct Quarters {
  int whole;
  double rest;
};
/// Of |x|, finite. For large x the bits of 2/π that count are multiplied (Payne & Hanek 1983).
ALPA_HOST_DEVICE inline Quarters quarters_of(float x) {
  constexpr double kQuarter = 1.5707963267948966;
  if (x < 65536) {
    const double n = ::rint(x / kQuarter);
    return {static_cast<int>(n), x - n * kQuarter};
  }
  const std::uint32_t bits = half::bits_of(x), mantissa = bits << 8 | 0x80000000u;
  const int exponent = static_cast<int>(bits >> 23) - 126, i = exponent >> 5, e = exponent & 31;
  const auto word = [&](int k) {
    const std::uint64_t two = std::uint64_t{k < 0 ? 0 : two_over_pi(k)} << 32 | two_over_pi(k + 1);
    return static_cast<std::uint32_t>(two >> (32 - e));
  };
  std::uint64_t p = std::uint64_t{mantissa} * word(i + 1);
  p = std::uint64_t{mantissa} * word(i) + (p >> 32);
  p += std::uint64_t{mantissa * word(i - 1)} << 32;
  const bool up = (p >> 61 & 1) != 0;
  const auto rest = static_cast<std::int64_t>(p << 2) >> 2;  // below 2^61 in size
  return {static_cast<int>(p >> 62) + up, static_cast<double>(rest) * (kQuarter * 0x1p-62)};
}

/// sin(x + shift · π/2), in double: CUDA's sinf has a table in local memory for large x.
ALPA_HOST_DEVICE inline Real<float> sine(Real<float> x, int shift) {
  if (!(::fabsf(x.v) < INFINITY)) return x - x;
  const Quarters angle = quarters_of(::fabsf(x.v));
  const double t = x.v < 0 ? -angle.rest : angle.rest, z = t * t;
  const int quarter = (x.v < 0 ? -angle.whole : angle.whole) + shift;
  const double of_sin =
      t + t * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880))));
  const double of_cos =
      1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 - z / 3628800))));
  const double y = quarter & 1 ? of_cos : of_sin;
  return Real<float>(quarter & 2 ? -y : y);
}
ALPA_HOST_DEVICE inline Real<float> sin(Real<float> x) { return sine(x, 0); }
ALPA_HOST_DEVICE inline Real<float> cos(Real<float> x) { return sine(x, 1); }

/// 1 / (1 + 2^(-x / ln 2)), the formula of `elementwise::sigmoid` for functions of which each
/// is one instruction of the card: f.exp2 may be infinite, the reciprocal of which is 0.
/// Below -87 the result may be 0.
template <class Functions>
ALPA_HOST_DEVICE inline float quick_sigmoid(float x, const Functions& f) {
  return f.reciprocal(1.0f + f.exp2(x * -1.4426950408889634f));
}
struct GpuFunctions {
  ALPA_HOST_DEVICE float exp2(float x) const { return approximate_exp2(x); }
  ALPA_HOST_DEVICE float reciprocal(float x) const { return approximate_reciprocal(x); }
};
/// Found before the template by what calls `sigmoid`, gelu too.
ALPA_HOST_DEVICE inline Real<float> sigmoid(Real<float> x) {
  return Real<float>(quick_sigmoid(x.v, GpuFunctions()));
}

ALPA_HOST_DEVICE inline Real<double> abs(Real<double> x) { return Real<double>(::fabs(x.v)); }
ALPA_HOST_DEVICE inline Real<double> exp(Real<double> x) { return Real<double>(::exp(x.v)); }
ALPA_HOST_DEVICE inline Real<double> log(Real<double> x) { return Real<double>(::log(x.v)); }
ALPA_HOST_DEVICE inline Real<double> sqrt(Real<double> x) { return Real<double>(::sqrt(x.v)); }
ALPA_HOST_DEVICE inline Real<double> tanh(Real<double> x) { return Real<double>(::tanh(x.v)); }
ALPA_HOST_DEVICE inline Real<double> sin(Real<double> x) { return Real<double>(::sin(x.v)); }
ALPA_HOST_DEVICE inline Real<double> cos(Real<double> x) { return Real<double>(::cos(x.v)); }
ALPA_HOST_DEVICE inline Real<double> floor(Real<double> x) { return Real<double>(::floor(x.v)); }
ALPA_HOST_DEVICE inline Real<double> erf(Real<double> x) { return Real<double>(::erf(x.v)); }
ALPA_HOST_DEVICE inline Real<double> pow(Real<double> x, Real<double> y) {
  return Real<double>(::pow(x.v, y.v));
}

/// x as it would be after being stored as T.
template <class T, class S>
ALPA_HOST_DEVICE inline Real<S> round_through(Real<S> x) {
  return Real<S>(Element<T>::template widen<S>(Element<T>::template narrow<S>(x.v)));
}
template <class S>
ALPA_HOST_DEVICE inline Real<S> round_to_f32(Real<S> x) {
  return round_through<float>(x);
}
template <class S>
ALPA_HOST_DEVICE inline Real<S> round_to_bf16(Real<S> x) {
  return round_through<Bf16>(x);
}
template <class S>
ALPA_HOST_DEVICE inline Real<S> round_to_f16(Real<S> x) {
  return round_through<F16>(x);
}
template <class S>
ALPA_HOST_DEVICE inline Real<S> round_to_i32(Real<S> x) {
  return round_through<std::int32_t>(x);
}
template <class S>
ALPA_HOST_DEVICE inline Real<S> round_to_u8(Real<S> x) {
  return round_through<std::uint8_t>(x);
}

}  // namespace alpa::cuda
