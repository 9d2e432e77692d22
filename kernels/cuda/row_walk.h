#pragma once
/// Which rows of a matrix a thread takes, in device code.
#include <cuda_runtime.h>

#include <cstdint>

namespace alpa::cuda {

/// Rows first, first + step, … of this thread: a block or a warp each, of blocks of so many warps.
/// (All threads of a block leave together.)
template <bool block, int warps>
struct RowWalk {
  std::int64_t first, step;
  __device__ RowWalk()
      : first(block ? blockIdx.x : blockIdx.x * std::int64_t{warps} + threadIdx.x / 32),
        step(block ? gridDim.x : gridDim.x * std::int64_t{warps}) {}
};

}  // namespace alpa::cuda
