#pragma once
/// What relu let pass, as bits: a byte for eight neighbouring elements, the first one's bit the lowest, as
/// cuBLASLt's epilogues store it. For products whose epilogue cuBLASLt does not take.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// bits[i] says which of the elements 8i … 8i + 7 of x are above 0. Floating types.
Status run_keep_bits(DType dtype, std::int64_t bytes, const void* x, void* bits, Stream stream);

/// Elements of x whose bit is not set become 0.
Status run_apply_bits(DType dtype, std::int64_t bytes, const void* bits, void* x, Stream stream);

}  // namespace alpa::cuda
