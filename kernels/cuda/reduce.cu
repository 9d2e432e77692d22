// kernels/cuda/reduce.cu — reductions over dimensions
#include "kernels/cuda/reduce.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/reduce_batch.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
/// Blocks of a multiprocessor, at least, of kernels that read packs of n: 48 KiB
/// of loads in flight or more.
template <int n>
constexpr int kBlocks = n >= 8 ? 3 : 4;
constexpr std::int64_t kManyLines = 2048;  ///< from here on a warp per line fills a card

/// Neighbours that are read at once: 16 bytes, of the smallest type 8.
template <class T>
constexpr int kPack = sizeof(T) > 1 ? 16 / static_cast<int>(sizeof(T)) : 8;

/// Combination over the `width` threads (a power of two up to 32) whose lanes differ in the lowest
/// bits alone; the whole warp takes part.
template <ReduceOp op>
__device__ double combine_lanes(double x, int width) {
  for (int offset = width / 2; offset > 0; offset /= 2)
    x = combine<op>(x, __shfl_xor_sync(~0u, x, offset, 32));
  return x;
}

/// Combination over the block, in thread 0.
template <ReduceOp op>
__device__ double combine_block(double x) {
  __shared__ double warps[kWarps];
  x = combine_lanes<op>(x, 32);
  __syncthreads();  // the last result has been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x != 0) return x;
  for (int w = 1; w < kWarps; ++w) x = combine<op>(x, warps[w]);
  return x;
}

/// Destination of results: pieces go to the workspace, whole results to y.
struct Results {
  void* y;
  double* workspace;
  DType to;
  std::int64_t pieces;
  std::int64_t result_stride, piece_stride;  ///< of the workspace

  __device__ void put(std::int64_t result, std::int64_t piece, double value) const {
    if (pieces > 1) {
      workspace[result * result_stride + piece * piece_stride] = value;
      return;
    }
    with_stored<double>(to, [&](auto t) {
      static_cast<decltype(t)*>(y)[result] = Element<decltype(t)>::narrow(value);
    });
  }
};

/// Whether packs of n elements begin at multiples of 16 bytes, or of n elements if that is
/// less, wherever a walk leads.
template <class T>
bool is_packed(const ReduceLaunch& r, const T* x, int n) {
  bool packed = r.inner % n == 0 && aligned16(x);
  for (int d = 0; d < r.kept.dims; ++d) packed = packed && r.kept.stride[d] % n == 0;
  for (int d = 0; d < r.reduced.dims; ++d) packed = packed && r.reduced.stride[d] % n == 0;
  return packed;
}

// ---- lines: inner is reduced
// ---------------------------------------------------------------------------------------------

/// The n elements at first, first + step, … below end of the line at x: one thread's share.
template <class T, ReduceOp op, int n>
__device__ double line_share(const ReduceLaunch& r, const T* x, std::int64_t first,
                             std::int64_t step, std::int64_t end) {
  constexpr int batch = kBatch<T, n>;
  double result = neutral<op, double>();
#pragma unroll 1
  for (std::int64_t e = first; e < end; e += batch * step) {
    std::int64_t at[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) at[b] = e + b * step;
    if (r.reduced_count > 1)
      walk_batch(at, [&](int b) {
        const Division row = divide(e + b * step, r.inner);
        return inline_position(r.reduced, row.quotient) + row.remainder;
      });
    BatchValue<T, op> values[batch][n];
    load_batch<T, op>(values, x, at, e, step, end);
    result = combine_line<op>(result, values);
  }
  return result;
}

/// A block per piece of a result.
template <class T, ReduceOp op, int n>
__global__ void __launch_bounds__(kThreads, kBlocks<n>)
    long_lines(const __grid_constant__ ReduceLaunch r, const T* x, Results results) {
  const std::int64_t length = r.reduced_count * r.inner;
  for (std::int64_t i = blockIdx.x; i < r.results * r.pieces; i += gridDim.x) {
    const Division at = divide(i, r.pieces);
    const std::int64_t result = at.quotient, piece = at.remainder, begin = piece * r.per_piece;
    const std::int64_t end = begin + r.per_piece < length ? begin + r.per_piece : length;
    const double share = line_share<T, op, n>(r, x + inline_position(r.kept, result),
                                              begin + threadIdx.x * n, kThreads * n, end);
    const double value = combine_block<op>(share);
    if (threadIdx.x == 0) results.put(result, piece, value);
  }
}

/// `width` threads, a power of two up to 32, per result.
template <class T, ReduceOp op, int n>
__global__ void __launch_bounds__(kThreads, kBlocks<n>)
    short_lines(const __grid_constant__ ReduceLaunch r, const T* x, Results results, int width) {
  const std::int64_t length = r.reduced_count * r.inner, per_block = kThreads / width;
  for (std::int64_t first = blockIdx.x * per_block; first < r.results;
       first += gridDim.x * per_block) {
    const std::int64_t result = first + threadIdx.x / width;
    double share = neutral<op, double>();
    if (result < r.results)
      share = line_share<T, op, n>(r, x + inline_position(r.kept, result), threadIdx.x % width * n,
                                   width * n, length);
    const double value = combine_lanes<op>(share, width);
    if (result < r.results && threadIdx.x % width == 0) results.put(result, 0, value);
  }
}

/// A block takes a line that gives each of its threads a batch, or that a warp would need
/// several for while lines are few. Else as many threads as have a batch each, but no fewer than
/// read 128 bytes side by side.
template <class T, ReduceOp op, int n>
Status run_lines_of(const ReduceLaunch& r, const T* x, const Results& results, Stream stream) {
  constexpr int batch = kBatch<T, n>;
  const std::int64_t packs = r.reduced_count * r.inner / n;
  if (r.pieces > 1 || packs >= kThreads * batch || (packs > 32 * batch && r.results < kManyLines))
    return launch(long_lines<T, op, n>, blocks_for(r.results * r.pieces, 1, 65535), kThreads, 0,
                  stream, r, x, results);
  int width = 1;
  while (width < 32 && width < packs && (width < 8 || width * batch < packs)) width *= 2;
  return launch(short_lines<T, op, n>, blocks_for(r.results, kThreads / width, 65535), kThreads, 0,
                stream, r, x, results, width);
}

template <class T, ReduceOp op>
Status run_lines(const ReduceLaunch& r, const T* x, const Results& results, Stream stream) {
  constexpr int n = kPack<T>;
  return is_packed(r, x, n) ? run_lines_of<T, op, n>(r, x, results, stream)
                            : run_lines_of<T, op, 1>(r, x, results, stream);
}

// ---- columns: inner is kept
// ---------------------------------------------------------------------------------------------

/// Shape of a block's threads: `across` packs of columns × `down` rows.
struct ColumnGrid {
  int across, down;
  std::int64_t blocks;  ///< side by side
};

/// Rows first, first + step, … below end of the n columns at x.
template <class T, ReduceOp op, int n>
__device__ void column_share(double (&results)[n], const ReduceLaunch& r, const T* x,
                             std::int64_t first, std::int64_t step, std::int64_t end) {
  constexpr int batch = kBatch<T, n>;
#pragma unroll 1
  for (std::int64_t row = first; row < end; row += batch * step) {
    std::int64_t at[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) at[b] = (row + b * step) * r.reduced.stride[0];
    if (r.reduced.dims > 1)
      walk_batch(at, [&](int b) { return inline_position(r.reduced, row + b * step); });
    BatchValue<T, op> values[batch][n];
    load_batch<T, op>(values, x, at, row, step, end);
    combine_columns<op>(results, values);
  }
}

/// Columns `n` at a time: 16 bytes if the layout allows, else one.
template <class T, ReduceOp op, int n>
__global__ void __launch_bounds__(kThreads, kBlocks<n>)
    columns(const __grid_constant__ ReduceLaunch r, const T* x, Results results, ColumnGrid grid) {
  __shared__ double shares[kWarps][n][32 + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int across = threadIdx.x % grid.across, down = threadIdx.x / grid.across;
  const std::int64_t tasks = r.kept_count * grid.blocks * r.pieces;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Division block = divide(task, grid.blocks), kept = divide(block.quotient, r.pieces);
    const std::int64_t piece = kept.remainder, begin = piece * r.per_piece,
                       left = block.remainder * grid.across * n, column = left + across * n;
    const std::int64_t end =
        begin + r.per_piece < r.reduced_count ? begin + r.per_piece : r.reduced_count;
    double sums[n];
#pragma unroll
    for (int i = 0; i < n; ++i) sums[i] = neutral<op, double>();
    if (column < r.inner)
      column_share<T, op, n>(sums, r, x + inline_position(r.kept, kept.quotient) + column,
                             begin + down, grid.down, end);
    for (int offset = 16; offset >= grid.across; offset /= 2)
#pragma unroll
      for (int i = 0; i < n; ++i)
        sums[i] = combine<op>(sums[i], __shfl_xor_sync(~0u, sums[i], offset, 32));
    __syncthreads();  // the last results have been read
#pragma unroll
    for (int i = 0; i < n; ++i)
      if (lane < grid.across) shares[warp][i][lane] = sums[i];
    __syncthreads();
    const int own = threadIdx.x;  // a column of the block's
    if (own >= grid.across * n || left + own >= r.inner) continue;
    double value = shares[0][own % n][own / n];
    for (int w = 1; w < kWarps; ++w) value = combine<op>(value, shares[w][own % n][own / n]);
    results.put(kept.quotient * r.inner + left + own, piece, value);
  }
}

/// Up to 32 packs side by side, but 8 if there is so little to do that narrower
/// blocks reach more of the card.
template <class T, ReduceOp op, int n>
Status run_columns_of(const ReduceLaunch& r, const T* x, const Results& results, Stream stream) {
  constexpr std::int64_t few = 256;
  ColumnGrid grid = {1, kThreads, 1};
  const auto blocks = [&] {
    return divide_up(r.inner, static_cast<std::int64_t>(grid.across) * n);
  };
  while (grid.across < 32 && grid.across * n < r.inner) grid.across *= 2;
  while (grid.across > 8 && r.kept_count * r.pieces * blocks() < few) grid.across /= 2;
  grid.down = kThreads / grid.across;
  grid.blocks = blocks();
  return launch(columns<T, op, n>, blocks_for(r.kept_count * grid.blocks * r.pieces, 1, 65535),
                kThreads, 0, stream, r, x, results, grid);
}

template <class T, ReduceOp op>
Status run_columns(const ReduceLaunch& r, const T* x, const Results& results, Stream stream) {
  constexpr int n = kPack<T>;
  return is_packed(r, x, n) ? run_columns_of<T, op, n>(r, x, results, stream)
                            : run_columns_of<T, op, 1>(r, x, results, stream);
}

// ---- both passes
// ---------------------------------------------------------------------------------------------

template <class T, ReduceOp op>
Status run_pass(const ReduceLaunch& r, const T* x, const Results& results, Stream stream) {
  return r.inner_reduced ? run_lines<T, op>(r, x, results, stream)
                         : run_columns<T, op>(r, x, results, stream);
}

/// The reduction of the workspace: as long as lines that lie there one after the other, or rows.
ReduceLaunch second_pass(const ReduceLaunch& r) {
  ReduceLaunch second;
  second.inner_reduced = r.inner_reduced;
  second.results = r.results, second.per_piece = r.pieces;
  Walk& walk = r.inner_reduced ? second.kept : second.reduced;
  walk.dims = 1;
  walk.extent[0] = r.inner_reduced ? r.results : r.pieces;
  walk.stride[0] = r.inner_reduced ? r.pieces : r.results;
  (r.inner_reduced ? second.kept_count : second.reduced_count) = walk.extent[0];
  second.inner = walk.stride[0];
  return second;
}

__global__ void fill_results(Results results, std::int64_t count, double value) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) results.put(i, 0, value);
}

template <ReduceOp op>
Status run(const ReduceLaunch& r, const void* x, void* y, double* workspace, Stream stream) {
  Results results = {y, workspace, r.to, r.pieces, 1, r.results};
  if (r.inner_reduced) results.result_stride = r.pieces, results.piece_stride = 1;
  if (r.empty)
    return launch(fill_results, divide_up(r.results, kThreads), kThreads, 0, stream, results,
                  r.results, neutral<op, double>());
  const Status status = with_element(r.from, [&](auto t) {
    return run_pass<decltype(t), op>(r, static_cast<const decltype(t)*>(x), results, stream);
  });
  if (r.pieces == 1 || status != cudaSuccess) return status;
  results.pieces = 1;
  return run_pass<double, op>(second_pass(r), workspace, results, stream);
}

}  // namespace

Status run_reduce(const ReduceLaunch& launch, const void* x, void* y, void* workspace,
                  Stream stream) {
  double* const pieces = static_cast<double*>(workspace);
  return reducing::with_op(
      launch.op, [&](auto op) { return run<decltype(op)::value>(launch, x, y, pieces, stream); });
}

}  // namespace alpa::cuda
