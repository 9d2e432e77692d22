#pragma once
/// A call of `rotary`, as CPU and CUDA kernels see it.
#include <cstdint>

#include "alpa/base/dtype.h"

namespace alpa {
struct KernelCall;
}

namespace alpa::kernels {

/// A part of x [B, T, H, D]; positions are [T], or [B, T] if `per_row`.
struct RotaryShape {
  DType dtype = DType::f32;
  std::int64_t batch = 1, time = 1, heads = 1, width = 2;
  bool per_row = false, interleaved = false, backward = false;
  double base = 10000;
};

RotaryShape rotary_shape(const KernelCall& call);

}  // namespace alpa::kernels
