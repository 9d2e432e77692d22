#pragma once
/// Shared by the launchers of all CUDA kernels. Headers that declare launchers are C++17, need no
/// CUDA header and may be included anywhere. Rules of every launcher: pointers are device memory
/// unless stated otherwise; it queues work on `stream`, allocates nothing and does not wait;
/// results depend only on shapes and values, not on the card or on timing; extents may be 0. Calls
/// may come from any thread.
#include <cstdint>

#include "alpa/base/dtype.h"

struct CUstream_st;

namespace alpa::cuda {

using Stream = CUstream_st*;  ///< cudaStream_t
using Status = int;           ///< cudaError_t: 0 is success

/// Dimensions that a kernel can walk after those that behave alike have been merged.
inline constexpr int kMaxDims = 8;

/// Positions of a set of dimensions: index i, row-major over `extent`, is at the sum of its
/// coordinates times `stride` (in elements).
struct Walk {
  int dims = 0;
  std::int64_t extent[kMaxDims] = {};
  std::int64_t stride[kMaxDims] = {};
};

}  // namespace alpa::cuda
