// kernels/cuda/norms.cu — squared norms of many tensors: one sum per chunk, then one block
// adds the chunks of a tensor
#include <utility>

#include "kernels/cuda/tensor_table.h"
#include "kernels/cuda/update.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

/// Σ over the block, in thread 0.
__device__ double sum_block(double x) {
  __shared__ double warps[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset, 32);
  __syncthreads();  // the last sum has been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x != 0) return x;
  for (int w = 1; w < kWarps; ++w) x += warps[w];
  return x;
}

template <class T, int n>
__device__ double add_squares(double sum, const T (&x)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const double value = Element<T>::template widen<double>(x[i]);
    sum += value * value;
  }
  return sum;
}

/// Σ of the squares that belong to this thread of `count` elements. Reads of 16 bytes if x is at a
/// multiple of that; the order of additions is the same from any address.
template <class T>
__device__ double squares_of(const T* x, int count) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T)), kAtOnce = 4, kStep = kThreads * kPack;
  const bool fast = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  const int first = static_cast<int>(threadIdx.x) * kPack;
  double sum = 0;
  int at = first;
  if (fast)
    for (; at + (kAtOnce - 1) * kStep + kPack <= count; at += kAtOnce * kStep) {
      T raw[kAtOnce][kPack];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) load_words(raw[p], x + at + p * kStep);
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) sum = add_squares(sum, raw[p]);
    }
#pragma unroll 1
  for (; at < count; at += kStep) {
    T raw[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) raw[i] = at + i < count ? x[at + i] : T();
    sum = add_squares(sum, raw);
  }
  return sum;
}

__device__ double squares_of(const NormTensor& t, std::int64_t begin, int count) {
  double sum = 0;
  with_stored<double>(t.type, [&](auto element) {
    sum = squares_of(static_cast<const decltype(element)*>(t.x) + begin, count);
  });
  return sum;
}

template <int capacity>
__global__ void __launch_bounds__(kThreads, 4)
    square_chunks(const __grid_constant__ Table<NormTensor, capacity> table, double* sums) {
  for (std::int64_t chunk = blockIdx.x; chunk < table.chunks; chunk += gridDim.x) {
    const int tensor = tensor_of(table, chunk);
    const NormTensor& t = table.tensors[tensor];
    const std::int64_t begin = (chunk - table.first_chunk[tensor]) * kUpdateChunk;
    const std::int64_t left = t.elements - begin;
    const double sum = sum_block(
        squares_of(t, begin, static_cast<int>(left < kUpdateChunk ? left : kUpdateChunk)));
    if (threadIdx.x == 0) sums[chunk] = sum;
  }
}

/// A block a tensor.
template <int capacity>
__global__ void __launch_bounds__(kThreads)
    add_chunks(const __grid_constant__ Table<NormTensor, capacity> table, const double* sums) {
  const int tensor = static_cast<int>(blockIdx.x);
  const std::int64_t end = tensor + 1 < table.count ? table.first_chunk[tensor + 1] : table.chunks;
  double sum = 0;
  for (std::int64_t i = table.first_chunk[tensor] + threadIdx.x; i < end; i += kThreads)
    sum += sums[i];
  const double total[1] = {sum_block(sum)};
  if (threadIdx.x == 0)
    store_typed(table.tensors[tensor].result, table.tensors[tensor].result_type, total, 0, 1);
}

}  // namespace

Status run_squared_norms(const NormTensor* tensors, int count, double* workspace, Stream stream) {
  double* sums = workspace;
  return for_tables(
      tensors, count, [](const NormTensor&) { return true; },
      [&](const auto& table) {
        constexpr int capacity = capacity_of<decltype(table)>;
        const Status status = launch_table(square_chunks<capacity>, kThreads, stream, table, sums);
        if (status != cudaSuccess) return status;
        const double* const added = std::exchange(sums, sums + table.chunks);
        return launch(add_chunks<capacity>, table.count, kThreads, 0, stream, table, added);
      });
}

}  // namespace alpa::cuda
