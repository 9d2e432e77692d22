#pragma once
/// Conversion between the types of storage and of computation (`S`: float or double), in device
/// code, on the host and in code compiled at run time (no header but these). Rounds to nearest
/// even; to integers towards zero, saturated, NaN gives 0.
#include "kernels/elementwise.h"
#include "src/base/half.h"

namespace alpa::cuda {

/// Saturated between low and high, both exact in S.
template <class S>
ALPA_HOST_DEVICE inline S clamp_to(S x, S low, S high) {
  if (x != x) return S(0);
  return x < low ? low : x > high ? high : x;
}

template <class T>
struct Element;

/// Types that are computed with as they are stored.
template <class T>
struct PlainElement {
  template <class S>
  ALPA_HOST_DEVICE static S widen(T x) {
    return static_cast<S>(x);
  }
  template <class S>
  ALPA_HOST_DEVICE static T narrow(S x) {
    return static_cast<T>(x);
  }
};

template <>
struct Element<float> : PlainElement<float> {};

template <>
struct Element<double> : PlainElement<double> {};

template <>
struct Element<Bf16> {
  template <class S>
  ALPA_HOST_DEVICE static S widen(Bf16 x) {
    return static_cast<S>(to_float(x));
  }
  template <class S>
  ALPA_HOST_DEVICE static Bf16 narrow(S x) {
#if defined(__CUDA_ARCH__)
    Bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(static_cast<float>(x)));
    return y;
#else
    return to_bf16(static_cast<float>(x));
#endif
  }
};

template <>
struct Element<F16> {
  template <class S>
  ALPA_HOST_DEVICE static S widen(F16 x) {
#if defined(__CUDA_ARCH__)
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return static_cast<S>(y);
#else
    return static_cast<S>(to_float(x));
#endif
  }
  template <class S>
  ALPA_HOST_DEVICE static F16 narrow(S x) {
#if defined(__CUDA_ARCH__)
    F16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(static_cast<float>(x)));
    return y;
#else
    return to_f16(static_cast<float>(x));
#endif
  }
};

template <>
struct Element<std::int32_t> {
  template <class S>
  ALPA_HOST_DEVICE static S widen(std::int32_t x) {
    return static_cast<S>(x);
  }
  template <class S>
  ALPA_HOST_DEVICE static std::int32_t narrow(S x) {
    return static_cast<std::int32_t>(clamp_to(static_cast<double>(x), -2147483648.0, 2147483647.0));
  }
};

template <>
struct Element<std::uint8_t> {
  template <class S>
  ALPA_HOST_DEVICE static S widen(std::uint8_t x) {
    return static_cast<S>(x);
  }
  template <class S>
  ALPA_HOST_DEVICE static std::uint8_t narrow(S x) {
    return static_cast<std::uint8_t>(clamp_to(x, S(0), S(255)));
  }
};

}  // namespace alpa::cuda
