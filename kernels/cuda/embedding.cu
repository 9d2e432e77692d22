// kernels/cuda/embedding.cu — embedding and embedding_grad
#include "kernels/cuda/embedding.h"

#include <utility>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kChunk = 512;  ///< ids that a block sorts

/// A row and the number of an id: sorted, they list every row's ids in order.
using Key = std::uint64_t;
constexpr std::uint32_t kNotHeld = 0xffffffff;  ///< sorted last
__device__ inline std::uint32_t row_of(Key key) { return static_cast<std::uint32_t>(key >> 32); }
__device__ inline std::int64_t token_of(Key key) { return static_cast<std::uint32_t>(key); }

// ---- lookup

/// Packs of n elements, four at a time: their ids are read first, then the
/// table, then y is written.
template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    pick_rows(const __grid_constant__ EmbeddingLaunch e, const T* table, const std::int32_t* ids,
              T* y) {
  constexpr int batch = 4;
  const std::int64_t packs = e.width / n, count = e.ids * packs;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       first < count; first += batch * step) {
    std::int64_t token[batch], column[batch], from[batch], id[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const std::int64_t i = first + b * step;
      const Division at = divide(i < count ? i : count - 1, packs);
      token[b] = at.quotient, column[b] = at.remainder * n;
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) id[b] = ids[token[b]];
    T rows[batch][n];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const bool exists = id[b] >= 0 && id[b] < e.all_rows;
      const std::int64_t row = id[b] - e.first_row;
      from[b] = exists && row >= 0 && row < e.held_rows ? row * e.width + column[b] : -1;
#pragma unroll
      for (int k = 0; k < n; ++k) rows[b][k] = Element<T>::narrow(exists ? 0.0f : NAN);
    }
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (from[b] >= 0) load_words(rows[b], table + from[b]);
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (first + b * step < count) store_words(y + (first + b * step) * n, rows[b]);
  }
}

// ---- gradient

/// Every chunk of ids sorted: an id's place is the number of smaller ones.
__global__ void __launch_bounds__(kChunk)
    sort_chunks(const __grid_constant__ EmbeddingLaunch e, const std::int32_t* ids, Key* sorted) {
  __shared__ Key keys[kChunk];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kChunk,
                     i = begin + threadIdx.x;
  const int count = static_cast<int>(e.ids - begin < kChunk ? e.ids - begin : kChunk);
  if (i < e.ids) {
    const std::int64_t id = ids[i], row = id - e.first_row;
    const bool held = id >= 0 && id < e.all_rows && row >= 0 && row < e.held_rows;
    keys[threadIdx.x] = static_cast<Key>(held ? static_cast<std::uint32_t>(row) : kNotHeld) << 32 |
                        static_cast<std::uint32_t>(i);
  }
  __syncthreads();
  if (i >= e.ids) return;
  const Key own = keys[threadIdx.x];
  int place = 0;
#pragma unroll 8
  for (int k = 0; k < count; ++k) place += keys[k] < own ? 1 : 0;
  sorted[begin + place] = own;
}

/// Runs of `length` become runs of twice that: a key's place is its own in its run and the number
/// of smaller ones in the neighbour.
__global__ void __launch_bounds__(kThreads)
    merge_runs(const Key* from, Key* to, std::int64_t count, std::int64_t length) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t run = i / length, pair = run / 2 * 2 * length, other = (run ^ 1) * length;
  const Key own = from[i];
  std::int64_t low = other < count ? other : count,
               high = other + length < count ? other + length : count;
  const std::int64_t begin = low;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (from[middle] < own)
      low = middle + 1;
    else
      high = middle;
  }
  to[pair + i % length + (low - begin)] = own;
}

/// A warp for every place and 32 packs of columns; it works where a row's
/// ids begin, and adds them up.
template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    sum_runs(const __grid_constant__ EmbeddingLaunch e, const T* dy, const Key* sorted, T* dtable) {
  constexpr int batch = 4;
  const std::int64_t across = (e.width + 32 * n - 1) / (32 * n);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
       task < e.ids * across; task += step) {
    const Division at = divide(task, across);
    const std::int64_t column = (at.remainder * 32 + threadIdx.x % 32) * n;
    const Key first = sorted[at.quotient];
    const std::uint32_t row = row_of(first);
    if (row == kNotHeld || column >= e.width) continue;
    if (at.quotient > 0 && row_of(sorted[at.quotient - 1]) == row) continue;
    double sums[n] = {};
    bool more = true;
    for (std::int64_t place = at.quotient; more; place += batch) {
      bool same[batch];
      std::int64_t from[batch];
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        const Key key = place + b < e.ids ? sorted[place + b] : ~Key{0};
        same[b] = row_of(key) == row;
        from[b] = same[b] ? token_of(key) : token_of(first);
      }
      T rows[batch]
            // all are read, so that no load waits for a branch: the first once more from the cache
            [n];
#pragma unroll
      for (int b = 0; b < batch; ++b) load_words(rows[b], dy + from[b] * e.width + column);
#pragma unroll
      for (int b = 0; b < batch; ++b)
#pragma unroll
        for (int i = 0; i < n; ++i)
          sums[i] += same[b] ? Element<T>::template widen<double>(rows[b][i]) : 0.0;
      more = same[batch - 1];
    }
    store_pack(dtable + row * e.width + column, sums);
  }
}

/// The sorted ids, in one of the two halves of the workspace.
Status sort_ids(const EmbeddingLaunch& e, const std::int32_t* ids, Key* workspace,
                const Key** sorted, Stream stream) {
  Key *from = workspace, *to = workspace + e.ids;
  Status status = launch(sort_chunks, divide_up(e.ids, kChunk), kChunk, 0, stream, e, ids, from);
  for (std::int64_t length = kChunk; length < e.ids && status == cudaSuccess; length *= 2) {
    status = launch(merge_runs, divide_up(e.ids, kThreads), kThreads, 0, stream, from, to, e.ids,
                    length);
    std::swap(from, to);
  }
  *sorted = from;
  return status;
}

/// visit(T{}, pack) with the packs in which rows of T at these addresses can be read.
template <class Visit>
Status with_packs(const EmbeddingLaunch& e, const void* x, const void* y, const Visit& visit) {
  const auto as = [&](auto element) {
    constexpr int n = 16 / static_cast<int>(sizeof(element));
    if (e.width % n == 0 && aligned16(x) && aligned16(y))
      return visit(element, std::integral_constant<int, n>());
    return visit(element, std::integral_constant<int, 1>());
  };
  switch (e.dtype) {
    case DType::bf16: return as(Bf16());
    case DType::f16: return as(F16());
    case DType::f64: return as(double());
    default: return as(float());
  }
}

}  // namespace

Status run_embedding(const EmbeddingLaunch& e, const void* table, const std::int32_t* ids, void* y,
                     Stream stream) {
  return with_packs(e, table, y, [&](auto element, auto pack) {
    using T = decltype(element);
    constexpr int n = decltype(pack)::value;
    return launch(pick_rows<T, n>, blocks_for(e.ids * (e.width / n), 4 * kThreads, 8192), kThreads,
                  0, stream, e, static_cast<const T*>(table), ids, static_cast<T*>(y));
  });
}

Status run_embedding_grad(const EmbeddingLaunch& e, const void* dy, const std::int32_t* ids,
                          void* dtable, void* workspace, Stream stream) {
  Status status = run_fill(dtable, e.dtype, e.held_rows * e.width, 0, stream);
  if (status != cudaSuccess || e.ids == 0) return status;
  const Key* sorted = nullptr;
  status = sort_ids(e, ids, static_cast<Key*>(workspace), &sorted, stream);
  if (status != cudaSuccess) return status;
  return with_packs(e, dy, dtable, [&](auto element, auto pack) {
    using T = decltype(element);
    constexpr int n = decltype(pack)::value;
    return launch(sum_runs<T, n>, blocks_for(e.ids * divide_up(e.width, 32 * n), kWarps, 65535),
                  kThreads, 0, stream, e, static_cast<const T*>(dy), sorted,
                  static_cast<T*>(dtable));
  });
}

}  // namespace alpa::cuda
