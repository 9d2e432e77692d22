// kernels/cuda/channel_sums.cu — Σ x and Σ x·y over rows, for batch normalisation
#include "kernels/cuda/channel_sums.h"

#include <type_traits>

#include "kernels/cuda/add_pieces.h"
#include "kernels/cuda/floating.h"

namespace alpa::cuda {
namespace {

constexpr int kBatch = 4;  ///< rows that a thread loads before it uses the first

/// What a batch is added up in.
template <class T>
using BatchSum = std::conditional_t<sizeof(T) == 2, float, double>;

/// Threads side by side of a block, n columns each, a power of two up to 32; blocks side by side.
struct Across {
  int threads;
  std::int64_t blocks;
};

/// Adds rows first, first + step, … below end of n columns to sums[i] and sums[n + i].
template <class T, int n, bool squares>
__device__ void add_rows(double (&sums)[2 * n], const T* x, const T* y, std::int64_t width,
                         std::int64_t first, std::int64_t step, std::int64_t end) {
  using S = BatchSum<T>;
#pragma unroll 1
  for (std::int64_t row = first; row < end; row += kBatch * step) {
    T xs[kBatch][n] = {}, ys[kBatch][n] = {};
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (row + b * step >= end) continue;
      load_words(xs[b], x + (row + b * step) * width);
      if constexpr (!squares) load_words(ys[b], y + (row + b * step) * width);
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
      S sum = 0, products = 0;
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const S value = Element<T>::template widen<S>(xs[b][i]),
                other = squares ? value : Element<T>::template widen<S>(ys[b][i]);
        sum += value, products += value * other;
      }
      sums[i] += static_cast<double>(sum), sums[n + i] += static_cast<double>(products);
    }
  }
}

/// A piece of rows and a block's columns at a time: sums[piece][0] are Σ x, sums[piece][1] Σ x·y.
template <class T, int n, bool squares>
__global__ void __launch_bounds__(kSumThreads)
    sum_pieces(const __grid_constant__ ChannelSums l, const T* x, const T* y, double* sums,
               RowPieces pieces, Across across) {
  const int lane = threadIdx.x % across.threads, down = threadIdx.x / across.threads;
  for (std::int64_t task = blockIdx.x; task < across.blocks * pieces.count; task += gridDim.x) {
    const Division at = divide(task, across.blocks);
    const std::int64_t column = (at.remainder * across.threads + lane) * n;
    const std::int64_t begin = at.quotient * pieces.per_piece;
    const std::int64_t end = begin + pieces.per_piece < l.rows ? begin + pieces.per_piece : l.rows;
    double both[2 * n] = {};
    if (column < l.width)
      add_rows<T, n, squares>(both, x + column, y + column, l.width, begin + down,
                              kSumThreads / across.threads, end);
    for (int offset = 16; offset >= across.threads; offset /= 2)
#pragma unroll
      for (int i = 0; i < 2 * n; ++i) both[i] += __shfl_xor_sync(~0u, both[i], offset, 32);
    sum_warps(both);
    if (threadIdx.x >= static_cast<unsigned>(across.threads) || column >= l.width) continue;
    double* const out = sums + at.quotient * 2 * l.width + column;
#pragma unroll
    for (int i = 0; i < n; ++i) out[i] = both[i], out[l.width + i] = both[n + i];
  }
}

template <class T, int n>
Status sum_rows(const ChannelSums& l, const T* x, const T* y, double* sums, const RowPieces& pieces,
                Stream stream) {
  Across across = {1, 1};
  while (across.threads < 32 && across.threads * n < l.width) across.threads *= 2;
  across.blocks = divide_up(l.width, static_cast<std::int64_t>(across.threads) * n);
  const std::int64_t blocks = blocks_for(pieces.count * across.blocks, 1, 65535);
  if (y == nullptr)
    return launch(sum_pieces<T, n, true>, blocks, kSumThreads, 0, stream, l, x, x, sums, pieces,
                  across);
  return launch(sum_pieces<T, n, false>, blocks, kSumThreads, 0, stream, l, x, y, sums, pieces,
                across);
}

}  // namespace

Status run_channel_sums(const ChannelSums& l, const void* x, const void* y, void* sums,
                        void* products, double* workspace, Stream stream) {
  const RowPieces pieces = row_pieces(l.rows, l.width);
  return with_packs(l.dtype, l.width, {x, y}, [&](auto element, auto pack) {
    using T = decltype(element);
    const T *const xs = static_cast<const T*>(x), *const ys = static_cast<const T*>(y);
    const Status status = sum_rows<T, pack>(l, xs, ys, workspace, pieces, stream);
    if (status != cudaSuccess) return status;
    return add_all_pieces<Sum<T>>(sums, products, workspace, l.width, pieces.count, stream);
  });
}

}  // namespace alpa::cuda
