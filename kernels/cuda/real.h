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

/// sin(x + quarters · π/2) to 1e-7 below 1e9, in double: CUDA's sinf has a table in local memory.
ALPA_HOST_DEVICE inline Real<float> sine(Real<float> x, int quarters) {
  const double turn = ::fmod(static_cast<double>(x.v), 6.283185307179586);
  const double n = ::rint(turn * 0.6366197723675814), t = turn - n * 1.5707963267948966, z = t * t;
  const int quarter = quarters + (turn == turn ? static_cast<int>(n) : 0);
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
