#pragma once
/// Copies that exchange two dimensions, through tiles in shared memory.
#include "kernels/cuda/copy.h"

namespace alpa::cuda {

/// The copy of `launch`, whose dimensions transposed_dim(launch) and the last are exchanged.
/// x and y must not overlap.
Status run_transpose(const CopyLaunch& launch, const void* x, void* y, Stream stream);

}  // namespace alpa::cuda
