#pragma once
/// relu and its gradient as kernels of their own, for products whose epilogue computes neither. The
/// mask of positive elements is kept as bits: one byte per eight neighbouring elements, lowest bit
/// first, as in cuBLASLt's epilogues.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// z[i] = relu(z[i] + bias[i mod n]) for 8·bytes elements, and bits: which of these are above 0. A
/// NaN stays one and has no bit. The sum is rounded to `dtype` first. n is a multiple of 8; `bias`
/// null: none. Floating types.
Status run_relu_mask(DType dtype, std::int64_t bytes, const void* bias, std::int64_t n, void* z,
                     void* bits, Stream stream);

/// Elements of x whose bit is not set become 0.
Status run_apply_relu_mask(DType dtype, std::int64_t bytes, const void* bits, void* x,
                           Stream stream);

}  // namespace alpa::cuda
