#pragma once
/// Approximate functions, one instruction of the card each; numbers below 2^-126 count as 0. Error
/// bounds elsewhere assume the errors stated here; they have not been confirmed on a card yet. The
/// host computes the same exactly rounded. Usable in code compiled at run time.
#include <cmath>

#include "kernels/elementwise.h"
#include "src/base/half.h"

namespace alpa::cuda {

/// 2^x within 2^-22 of its value.
ALPA_HOST_DEVICE inline float approximate_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return ::exp2f(x);
#endif
}

/// 1 / x within an ulp for |x| up to 2^126; 0 beyond.
ALPA_HOST_DEVICE inline float approximate_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

/// √x within 2^-23 of its value, also below 2^-126.
ALPA_HOST_DEVICE inline float approximate_sqrt(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return ::sqrtf(x);
#endif
}

}  // namespace alpa::cuda
