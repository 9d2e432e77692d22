#pragma once
/// Many tensors in one launch: the kernel's parameter is a table of tensors, and blocks
/// process chunks of all of them.
#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/resident.h"
#include "kernels/cuda/update.h"

namespace alpa::cuda {

/// The parameter of a kernel: tensors and the chunk at which each begins.
template <class Tensor, int capacity>
struct Table {
  static constexpr int kCapacity = capacity;
  Tensor tensors[capacity];
  std::int64_t first_chunk[capacity];
  std::int64_t chunks = 0;
  int count = 0;

  void add(const Tensor& tensor) {
    tensors[count] = tensor;
    first_chunk[count++] = chunks;
    chunks += chunks_of(tensor);
  }
};

template <class T>
constexpr int capacity_of = std::decay_t<T>::kCapacity;

/// A table of few tensors is a smaller parameter to hand over.
inline constexpr int kFewTensors = 24;

/// Queues kernel(table, arguments…): a block a chunk, or as many blocks as are resident, which walk
/// the chunks of a large table.
template <class Tensor, int capacity, class... Parameters, class... Arguments>
Status launch_table(void (*kernel)(Parameters...), int threads, Stream stream,
                    const Table<Tensor, capacity>& table, const Arguments&... arguments) {
  std::int64_t most = 0;
  const Status status = resident_blocks(most, reinterpret_cast<const void*>(kernel), threads);
  if (status != cudaSuccess) return status;
  return launch(kernel, blocks_for(table.chunks, 1, most), threads, 0, stream, table, arguments...);
}

/// The tensor that holds chunk `chunk`: the last one that begins at it or before.
template <class Tensor, int capacity>
__device__ int tensor_of(const Table<Tensor, capacity>& table, std::int64_t chunk) {
  int low = 0, high = table.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (table.first_chunk[middle] <= chunk)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/// queue(table) for tables of the tensors for which belongs(tensor), as few as hold them.
template <class Tensor, class Belongs, class Queue>
Status for_tables(const Tensor* tensors, int count, const Belongs& belongs, const Queue& queue) {
  int some = 0;
  for (int i = 0; i < count; ++i) some += belongs(tensors[i]) ? 1 : 0;
  const auto fill_and_queue = [&](auto& table, int& next) {
    for (; next < count && table.count < table.kCapacity; ++next)
      if (belongs(tensors[next])) table.add(tensors[next]);
    some -= table.count;
    return queue(table);
  };
  int next = 0;
  while (some > kFewTensors) {
    Table<Tensor, kMaxTableTensors> table;
    if (const Status status = fill_and_queue(table, next); status != cudaSuccess) return status;
  }
  if (some == 0) return cudaSuccess;
  Table<Tensor, kFewTensors> table;
  return fill_and_queue(table, next);
}

// ---- elements of a type that is known at run time

/// The first `count` of n elements at `begin`; the others become 0.
template <class S, int n>
__device__ void load_typed(S (&out)[n], const void* data, DType dtype, std::int64_t begin,
                           std::int64_t count) {
  with_stored<double>(
      dtype, [&](auto t) { load_some(out, static_cast<const decltype(t)*>(data) + begin, count); });
}

template <class S, int n>
__device__ void store_typed(void* data, DType dtype, const S (&in)[n], std::int64_t begin,
                            std::int64_t count) {
  with_stored<double>(
      dtype, [&](auto t) { store_some(static_cast<decltype(t)*>(data) + begin, in, count); });
}

}  // namespace alpa::cuda
