// reduce_sum, reduce_mean, reduce_max
#include "kernels/cuda/reduce.h"

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr std::int64_t kLong =
    2048;  ///< elements of a line from which on a block reduces it, not a part of a warp

// ---- operations
// ---------------------------------------------------------------------------------------------

template <bool is_max>
__device__ inline double neutral() {
  return is_max ? -INFINITY : 0.0;
}
template <bool is_max>
__device__ inline double combine(double a, double b) {
  if constexpr (is_max)
    return a > b || a != a ? a : b;
  else
    return a + b;
}

/// Combination over the `width` threads (a power of two up to 32) whose lanes differ in the lowest bits
/// alone; the whole warp takes part.
template <bool is_max>
__device__ double combine_lanes(double x, int width) {
  for (int offset = width / 2; offset > 0; offset /= 2)
    x = combine<is_max>(x, __shfl_xor_sync(~0u, x, offset, 32));
  return x;
}

/// Combination over the block, in thread 0.
template <bool is_max>
__device__ double combine_block(double x) {
  __shared__ double warps[kWarps];
  x = combine_lanes<is_max>(x, 32);
  __syncthreads();  // the last result has been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x != 0) return x;
  for (int w = 1; w < kWarps; ++w) x = combine<is_max>(x, warps[w]);
  return x;
}

/// Where results go: pieces to the workspace (result-major), whole ones to y.
struct Results {
  void* y;
  double* workspace;
  DType to;
  std::int64_t pieces;
  double scale;

  __device__ void put(std::int64_t result, std::int64_t piece, double value) const {
    if (pieces > 1) {
      workspace[result * pieces + piece] = value;
      return;
    }
    value *= scale;
    switch (to) {
      case DType::f32: static_cast<float*>(y)[result] = Element<float>::narrow(value); break;
      case DType::bf16: static_cast<Bf16*>(y)[result] = Element<Bf16>::narrow(value); break;
      case DType::f16: static_cast<F16*>(y)[result] = Element<F16>::narrow(value); break;
      case DType::f64: static_cast<double*>(y)[result] = value; break;
      case DType::i32: static_cast<std::int32_t*>(y)[result] = Element<std::int32_t>::narrow(value); break;
      case DType::u8: static_cast<std::uint8_t*>(y)[result] = Element<std::uint8_t>::narrow(value); break;
    }
  }
};

// ---- lines: inner is reduced
// ---------------------------------------------------------------------------------------------

template <class T>
constexpr int kPack = sizeof(T) >= 8                         ? 2
                      : 16 / static_cast<int>(sizeof(T)) > 8 ? 8
                                                             : 16 / static_cast<int>(sizeof(T));

/// Position of element e of a line.
__device__ inline std::int64_t line_position(const ReduceLaunch& r, std::int64_t e) {
  if (r.reduced_count == 1) return e;
  const Division at = divide(e, r.inner);
  return position(r.reduced, at.quotient) + at.remainder;
}

/// Elements first, first + step, … below end of the line at x, one thread's share. A pack's elements are
/// neighbours if `packed`: then `first`, `step` and `end` are multiples of it.
template <class T, bool is_max>
__device__ double line_share(const ReduceLaunch& r, const T* x, std::int64_t first, std::int64_t step,
                             std::int64_t end, bool packed) {
  double result = neutral<is_max>();
  if (!packed) {
#pragma unroll 2
    for (std::int64_t e = first; e < end; e += step)
      result = combine<is_max>(result, Element<T>::template widen<double>(x[line_position(r, e)]));
    return result;
  }
#pragma unroll 4
  for (std::int64_t e = first * kPack<T>; e < end; e += step * kPack<T>) {
    double values[kPack<T>];
    load_pack(values, x + line_position(r, e));
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) result = combine<is_max>(result, values[i]);
  }
  return result;
}

/// A block per piece of a result.
template <class T, bool is_max>
__global__ void __launch_bounds__(kThreads)
    long_lines(const __grid_constant__ ReduceLaunch r, const T* x, Results results, bool packed) {
  const std::int64_t length = r.reduced_count * r.inner;
  for (std::int64_t i = blockIdx.x; i < r.results * r.pieces; i += gridDim.x) {
    const std::int64_t result = i / r.pieces, piece = i % r.pieces, begin = piece * r.per_piece;
    const std::int64_t end = begin + r.per_piece < length ? begin + r.per_piece : length;
    const T* const line = x + position(r.kept, result);
    const std::int64_t first = packed ? begin / kPack<T> : begin;
    const double share = line_share<T, is_max>(r, line, first + threadIdx.x, kThreads, end, packed);
    const double value = combine_block<is_max>(share);
    if (threadIdx.x == 0) results.put(result, piece, value);
  }
}

/// `width` threads, a power of two up to 32, per result.
template <class T, bool is_max>
__global__ void __launch_bounds__(kThreads) short_lines(const __grid_constant__ ReduceLaunch r, const T* x,
                                                        Results results, bool packed, int width) {
  const std::int64_t length = r.reduced_count * r.inner, per_block = kThreads / width;
  for (std::int64_t first = blockIdx.x * per_block; first < r.results; first += gridDim.x * per_block) {
    const std::int64_t result = first + threadIdx.x / width;
    double share = neutral<is_max>();
    if (result < r.results)
      share = line_share<T, is_max>(r, x + position(r.kept, result), threadIdx.x % width, width, length,
                                    packed);
    const double value = combine_lanes<is_max>(share, width);
    if (result < r.results && threadIdx.x % width == 0) results.put(result, 0, value);
  }
}

template <class T, bool is_max>
Status run_lines(const ReduceLaunch& r, const T* x, const Results& results, Stream stream) {
  bool packed = r.inner % kPack<T> == 0 && aligned16(x);
  for (int d = 0; d < r.kept.dims; ++d) packed = packed && r.kept.stride[d] % kPack<T> == 0;
  for (int d = 0; d < r.reduced.dims; ++d) packed = packed && r.reduced.stride[d] % kPack<T> == 0;
  const std::int64_t length = r.reduced_count * r.inner, packs = packed ? length / kPack<T> : length;
  if (length >= kLong || r.pieces > 1)
    return launch(long_lines<T, is_max>, blocks_for(r.results * r.pieces, 1, 65535), kThreads, 0, stream, r,
                  x, results, packed);
  int width = 1;
  while (width < 32 && width < packs) width *= 2;
  return launch(short_lines<T, is_max>, blocks_for(r.results, kThreads / width, 65535), kThreads, 0, stream,
                r, x, results, packed, width);
}

// ---- columns: inner is kept
// ---------------------------------------------------------------------------------------------

/// How a block's threads stand: `across` packs of columns × `down` rows.
struct ColumnGrid {
  int across, down;
  std::int64_t blocks;  ///< side by side
};

/// Rows first, first + step, … below end of the n columns at x.
template <class T, bool is_max, int n>
__device__ void column_share(double (&sums)[n], const ReduceLaunch& r, const T* x, std::int64_t first,
                             std::int64_t step, std::int64_t end) {
#pragma unroll 4
  for (std::int64_t row = first; row < end; row += step) {
    double values[n];
    load_pack(values, x + position(r.reduced, row));
#pragma unroll
    for (int i = 0; i < n; ++i) sums[i] = combine<is_max>(sums[i], values[i]);
  }
}

/// Columns `n` at a time: 16 bytes if the layout allows, else one.
template <class T, bool is_max, int n>
__global__ void __launch_bounds__(kThreads)
    columns(const __grid_constant__ ReduceLaunch r, const T* x, Results results, ColumnGrid grid) {
  __shared__ double shares[n][kThreads];
  const int across = threadIdx.x % grid.across, down = threadIdx.x / grid.across;
  const std::int64_t tasks = r.kept_count * grid.blocks * r.pieces;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::int64_t piece = task / grid.blocks % r.pieces, kept = task / grid.blocks / r.pieces;
    const std::int64_t column = (task % grid.blocks * grid.across + across) * n,
                       begin = piece * r.per_piece;
    const std::int64_t end = begin + r.per_piece < r.reduced_count ? begin + r.per_piece : r.reduced_count;
    double sums[n];
#pragma unroll
    for (int i = 0; i < n; ++i) sums[i] = neutral<is_max>();
    if (column < r.inner)
      column_share<T, is_max, n>(sums, r, x + position(r.kept, kept) + column, begin + down, grid.down,
                                 end);
    __syncthreads();  // the last results have been read
#pragma unroll
    for (int i = 0; i < n; ++i) shares[i][threadIdx.x] = sums[i];
    __syncthreads();
    if (down > 0 || column >= r.inner) continue;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      for (int y = 1; y < grid.down; ++y)
        sums[i] = combine<is_max>(sums[i], shares[i][y * grid.across + across]);
      results.put(kept * r.inner + column + i, piece, sums[i]);
    }
  }
}

template <class T, bool is_max, int n>
Status run_columns_of(const ReduceLaunch& r, const T* x, const Results& results, Stream stream) {
  ColumnGrid grid = {1, kThreads, 1};
  while (grid.across < 32 && grid.across * n < r.inner) grid.across *= 2;
  grid.down = kThreads / grid.across;
  grid.blocks = divide_up(r.inner, static_cast<std::int64_t>(grid.across) * n);
  return launch(columns<T, is_max, n>, blocks_for(r.kept_count * grid.blocks * r.pieces, 1, 65535),
                kThreads, 0, stream, r, x, results, grid);
}

template <class T, bool is_max>
Status run_columns(const ReduceLaunch& r, const T* x, const Results& results, Stream stream) {
  constexpr int n = kPack<T>;
  bool packed = r.inner % n == 0 && aligned16(x);
  for (int d = 0; d < r.kept.dims; ++d) packed = packed && r.kept.stride[d] % n == 0;
  for (int d = 0; d < r.reduced.dims; ++d) packed = packed && r.reduced.stride[d] % n == 0;
  return packed ? run_columns_of<T, is_max, n>(r, x, results, stream)
                : run_columns_of<T, is_max, 1>(r, x, results, stream);
}

// ---- both passes
// ---------------------------------------------------------------------------------------------

template <class T, bool is_max>
Status run_pass(const ReduceLaunch& r, const void* x, const Results& results, Stream stream) {
  const T* const data = static_cast<const T*>(x);
  return r.inner_reduced ? run_lines<T, is_max>(r, data, results, stream)
                         : run_columns<T, is_max>(r, data, results, stream);
}

__global__ void fill_results(Results results, std::int64_t count, double value) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) results.put(i, 0, value);
}

template <bool is_max>
Status run(const ReduceLaunch& r, const void* x, void* y, double* workspace, Stream stream) {
  const double elements = static_cast<double>(r.reduced_count * (r.inner_reduced ? r.inner : 1));
  const double scale = r.op != ReduceOp::mean ? 1 : r.empty ? NAN : 1 / elements;
  Results results = {y, workspace, r.to, r.pieces, scale};
  if (r.empty)
    return launch(fill_results, divide_up(r.results, kThreads), kThreads, 0, stream, results, r.results,
                  is_max ? -INFINITY : 0.0);
  const Status status =
      with_element(r.from, [&](auto t) { return run_pass<decltype(t), is_max>(r, x, results, stream); });
  if (r.pieces == 1 || status != cudaSuccess) return status;
  ReduceLaunch second;
  second.results = r.results;
  second.kept.dims = 1, second.kept.extent[0] = r.results, second.kept.stride[0] = r.pieces;
  second.kept_count = r.results, second.inner = r.pieces, second.per_piece = r.pieces;
  results.pieces = 1;
  return run_lines<double, is_max>(second, workspace, results, stream);
}

}  // namespace

Status run_reduce(const ReduceLaunch& launch, const void* x, void* y, void* workspace, Stream stream) {
  double* const pieces = static_cast<double*>(workspace);
  return launch.op == ReduceOp::max ? run<true>(launch, x, y, pieces, stream)
                                    : run<false>(launch, x, y, pieces, stream);
}

}  // namespace alpa::cuda
