#pragma once
/// How many blocks of a kernel run at once. A kernel whose blocks loop over its work is launched as
/// so many: more would run in waves, of which the last leaves a part of the card idle.
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// blocks = those of `threads` threads and no dynamic shared memory that the current card holds.
inline Status resident_blocks(std::int64_t& blocks, const void* kernel, int threads) {
  int device = 0, multiprocessors = 0, of_each = 0;
  Status status = cudaGetDevice(&device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (status == cudaSuccess)
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, kernel, threads, 0);
  blocks = std::int64_t{multiprocessors} * of_each;
  return status == cudaSuccess && blocks == 0 ? cudaErrorInvalidConfiguration : status;
}

}  // namespace alpa::cuda
