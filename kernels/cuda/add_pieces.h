#pragma once
/// The second pass of sums in pieces (column_pieces.h). Device code only.
#include "kernels/cuda/device.h"

namespace alpa::cuda {

/// Blocks of sums over rows.
constexpr int kSumThreads = 256, kSumWarps = kSumThreads / 32;

/// Σ over the block's warps of what each lane has, in warp 0.
template <int n>
__device__ void sum_warps(double (&sums)[n]) {
  __shared__ double shares[kSumWarps][n][32 + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();  // the last sums have been read
#pragma unroll
  for (int i = 0; i < n; ++i) shares[warp][i][lane] = sums[i];
  __syncthreads();
  if (warp != 0) return;
#pragma unroll
  for (int i = 0; i < n; ++i)
    for (int w = 1; w < kSumWarps; ++w) sums[i] += shares[w][i][lane];
}

/// The sums of `width` columns in `first` and `second`, of which either may be null: sums[piece]
/// has those of `first`, then those of `second`. A block has 32 columns, its warps take pieces in
/// turn.
template <class T>
__global__ void __launch_bounds__(kSumThreads)
    add_pieces(T* first, T* second, const double* sums, std::int64_t width, std::int64_t pieces) {
  const std::int64_t column = blockIdx.x * std::int64_t{32} + threadIdx.x % 32;
  double sum[1] = {0};
  if (column < 2 * width)
#pragma unroll 4
    for (std::int64_t p = threadIdx.x / 32; p < pieces; p += kSumWarps)
      sum[0] += sums[p * 2 * width + column];
  sum_warps(sum);
  if (threadIdx.x >= 32 || column >= 2 * width) return;
  T* const out = column < width ? first : second;
  if (out == nullptr) return;
  out[column < width ? column : column - width] = Element<T>::narrow(sum[0]);
}

template <class T>
Status add_all_pieces(void* first, void* second, const double* sums, std::int64_t width,
                      std::int64_t pieces, Stream stream) {
  return launch(add_pieces<T>, divide_up(2 * width, 32), kSumThreads, 0, stream,
                static_cast<T*>(first), static_cast<T*>(second), sums, width, pieces);
}

}  // namespace alpa::cuda
