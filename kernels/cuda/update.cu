// Adam, SGD, squared norms: a block looks up which tensor its chunk belongs to.
#include "kernels/cuda/update.h"

#include <type_traits>
#include <utility>

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

using elementwise::AdamScalars;
using elementwise::SgdScalars;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

template <class S>
constexpr int kPack = 16 / static_cast<int>(sizeof(S));

/// The parameter of a kernel: tensors and the chunk at which each begins.
template <class Tensor, int capacity>
struct Table {
  Tensor tensors[capacity];
  std::int64_t first_chunk[capacity];
  std::int64_t chunks = 0;
  int count = 0;
};

template <class T>
constexpr int capacity_of = sizeof(std::decay_t<T>::tensors) / sizeof(std::decay_t<T>::tensors[0]);

/// A table of few tensors is a smaller parameter to hand over.
constexpr int kFewTensors = 24;

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

template <class S, int n>
__device__ void load_typed(S (&out)[n], const void* data, DType dtype, std::int64_t begin,
                           std::int64_t count) {
  switch (dtype) {
    case DType::f32: return load_some(out, static_cast<const float*>(data) + begin, count);
    case DType::bf16: return load_some(out, static_cast<const Bf16*>(data) + begin, count);
    case DType::f16: return load_some(out, static_cast<const F16*>(data) + begin, count);
    case DType::f64: return load_some(out, static_cast<const double*>(data) + begin, count);
    case DType::i32: return load_some(out, static_cast<const std::int32_t*>(data) + begin, count);
    case DType::u8: return load_some(out, static_cast<const std::uint8_t*>(data) + begin, count);
  }
}

template <class S, int n>
__device__ void store_typed(void* data, DType dtype, const S (&in)[n], std::int64_t begin,
                            std::int64_t count) {
  switch (dtype) {
    case DType::f32: return store_some(static_cast<float*>(data) + begin, in, count);
    case DType::bf16: return store_some(static_cast<Bf16*>(data) + begin, in, count);
    case DType::f16: return store_some(static_cast<F16*>(data) + begin, in, count);
    case DType::f64: return store_some(static_cast<double*>(data) + begin, in, count);
    case DType::i32: return store_some(static_cast<std::int32_t*>(data) + begin, in, count);
    case DType::u8: return store_some(static_cast<std::uint8_t*>(data) + begin, in, count);
  }
}

/// The first `count` of n elements at `begin`: in 16-byte accesses if the tensor allows (`fast`, f32
/// weights) and all are there.
template <class S, int n>
__device__ inline void read(S (&out)[n], const void* data, DType dtype, std::int64_t begin,
                            std::int64_t count, bool fast) {
  if constexpr (sizeof(S) == 4) {
    if (fast && count == n && dtype == DType::f32)
      return load_pack(out, static_cast<const float*>(data) + begin);
    if (fast && count == n && dtype == DType::bf16)
      return load_pack(out, static_cast<const Bf16*>(data) + begin);
  }
  load_typed(out, data, dtype, begin, count);
}
template <class S, int n>
__device__ inline void write(void* data, DType dtype, const S (&in)[n], std::int64_t begin,
                             std::int64_t count, bool fast) {
  if constexpr (sizeof(S) == 4) {
    if (fast && count == n && dtype == DType::f32) return store_pack(static_cast<float*>(data) + begin, in);
    if (fast && count == n && dtype == DType::bf16) return store_pack(static_cast<Bf16*>(data) + begin, in);
  }
  store_typed(data, dtype, in, begin, count);
}

__device__ double load_scalar(DeviceScalar scalar) {
  double value[1];
  load_typed(value, scalar.data, scalar.dtype, 0, 1);
  return value[0];
}

__device__ inline bool aligned_all(const UpdateTensor& t) {
  const auto bits = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  return ((bits(t.w) | bits(t.first) | bits(t.second) | bits(t.gradient) | bits(t.new_w) |
           bits(t.new_first) | bits(t.new_second)) &
          15) == 0;
}

__device__ inline bool is_wide(DType dtype) { return dtype == DType::f64 || dtype == DType::i32; }

// ---- optimizers
// ---------------------------------------------------------------------------------------------

struct Adam {
  AdamScalars scalars;

  template <class S>
  __device__ void operator()(S& w, S& m, S& v, S g) const {
    elementwise::adam<S>(w, m, v, g, scalars);
  }
};

struct Sgd {
  SgdScalars scalars;

  template <class S>
  __device__ void operator()(S& w, S& velocity, S&, S g) const {
    elementwise::sgd<S>(w, velocity, g, scalars);
  }
};

/// Elements [begin, begin + count) of t, kPack of them.
template <class S, class Rule>
__device__ void update_pack(const UpdateTensor& t, const Rule& rule, std::int64_t begin, std::int64_t count,
                            bool fast) {
  S w[kPack<S>], first[kPack<S>], second[kPack<S>] = {}, g[kPack<S>];
  read(w, t.w, t.w_type, begin, count, fast);
  read(first, t.first, t.first_type, begin, count, fast);
  if (t.second != nullptr) read(second, t.second, t.second_type, begin, count, fast);
  read(g, t.gradient, t.gradient_type, begin, count, fast);
#pragma unroll
  for (int i = 0; i < kPack<S>; ++i) rule(w[i], first[i], second[i], g[i]);
  write(t.new_w, t.w_type, w, begin, count, fast);
  write(t.new_first, t.first_type, first, begin, count, fast);
  if (t.second != nullptr) write(t.new_second, t.second_type, second, begin, count, fast);
}

template <class S, class Rule>
__device__ void update_chunk(const UpdateTensor& t, const Rule& rule, std::int64_t begin) {
  const std::int64_t end = begin + kUpdateChunk < t.elements ? begin + kUpdateChunk : t.elements;
  const bool fast = aligned_all(t);
  for (std::int64_t i = begin + threadIdx.x * kPack<S>; i < end; i += kThreads * kPack<S>)
    update_pack<S>(t, rule, i, end - i < kPack<S> ? end - i : kPack<S>, fast);
}

template <int capacity, class Rule>
__device__ void update_chunks(const Table<UpdateTensor, capacity>& table, const Rule& rule) {
  for (std::int64_t chunk = blockIdx.x; chunk < table.chunks; chunk += gridDim.x) {
    const int i = tensor_of(table, chunk);
    const UpdateTensor& t = table.tensors[i];
    const std::int64_t begin = (chunk - table.first_chunk[i]) * kUpdateChunk;
    const bool wide = is_wide(t.w_type) || is_wide(t.first_type) || is_wide(t.gradient_type) ||
                      (t.second != nullptr && is_wide(t.second_type));
    if (wide)
      update_chunk<double>(t, rule, begin);
    else
      update_chunk<float>(t, rule, begin);
  }
}

/// The powers of the bias correction are taken once a block.
template <int capacity>
__global__ void __launch_bounds__(kThreads, 3)
    adam(const __grid_constant__ Table<UpdateTensor, capacity> table, AdamSettings s,
         DeviceScalar learning_rate, DeviceScalar step) {
  __shared__ AdamScalars scalars;
  if (threadIdx.x == 0)
    scalars = elementwise::adam_scalars(s.beta1, s.beta2, s.epsilon, s.weight_decay, s.decoupled,
                                        load_scalar(learning_rate), load_scalar(step));
  __syncthreads();
  update_chunks(table, Adam{scalars});
}

template <int capacity>
__global__ void __launch_bounds__(kThreads) sgd(const __grid_constant__ Table<UpdateTensor, capacity> table,
                                                SgdSettings s, DeviceScalar learning_rate) {
  update_chunks(table, Sgd{{load_scalar(learning_rate), s.momentum, s.weight_decay, s.nesterov}});
}

// ---- squared norms
// ---------------------------------------------------------------------------------------------

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

template <int capacity>
__global__ void __launch_bounds__(kThreads)
    square_chunks(const __grid_constant__ Table<NormTensor, capacity> table, double* sums) {
  for (std::int64_t chunk = blockIdx.x; chunk < table.chunks; chunk += gridDim.x) {
    const int tensor = tensor_of(table, chunk);
    const NormTensor& t = table.tensors[tensor];
    const std::int64_t begin = (chunk - table.first_chunk[tensor]) * kUpdateChunk;
    const std::int64_t end = begin + kUpdateChunk < t.elements ? begin + kUpdateChunk : t.elements;
    const bool fast = reinterpret_cast<std::uintptr_t>(t.x) % 16 == 0 && !is_wide(t.type);
    double sum = 0;
    for (std::int64_t i = begin + threadIdx.x * 4; i < end; i += kThreads * 4) {
      const std::int64_t left = end - i < 4 ? end - i : 4;
      double x[4];
      if (fast) {
        float narrow[4];
        read(narrow, t.x, t.type, i, left, true);
        for (int k = 0; k < 4; ++k) x[k] = narrow[k];
      } else {
        load_typed(x, t.x, t.type, i, left);
      }
      for (int k = 0; k < 4; ++k) sum += x[k] * x[k];
    }
    sum = sum_block(sum);
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
  for (std::int64_t i = table.first_chunk[tensor] + threadIdx.x; i < end; i += kThreads) sum += sums[i];
  const double total[1] = {sum_block(sum)};
  if (threadIdx.x == 0)
    store_typed(table.tensors[tensor].result, table.tensors[tensor].result_type, total, 0, 1);
}

// ---- launching
// ---------------------------------------------------------------------------------------------

template <int capacity, class Tensor>
Table<Tensor, capacity> table_of(const Tensor* tensors, int count) {
  Table<Tensor, capacity> table;
  table.count = count;
  for (int i = 0; i < count; ++i) {
    table.tensors[i] = tensors[i];
    table.first_chunk[i] = table.chunks;
    table.chunks += chunks_of(tensors[i].elements);
  }
  return table;
}

/// queue(table) for groups of tensors that are not too many for a launch.
template <class Tensor, class Queue>
Status for_tables(const Tensor* tensors, int count, const Queue& queue) {
  if (count <= kFewTensors) return queue(table_of<kFewTensors>(tensors, count));
  for (int first = 0; first < count; first += kMaxTableTensors) {
    const int some = count - first < kMaxTableTensors ? count - first : kMaxTableTensors;
    const Status status = queue(table_of<kMaxTableTensors>(tensors + first, some));
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

template <class Tensor, int capacity>
std::int64_t blocks_of(const Table<Tensor, capacity>& table) {
  return blocks_for(table.chunks, 1, 65535);
}

}  // namespace

Status run_adam(const UpdateTensor* tensors, int count, const AdamSettings& settings,
                DeviceScalar learning_rate, DeviceScalar step, Stream stream) {
  return for_tables(tensors, count, [&](const auto& table) {
    return launch(adam<capacity_of<decltype(table)>>, blocks_of(table), kThreads, 0, stream, table,
                  settings, learning_rate, step);
  });
}

Status run_sgd(const UpdateTensor* tensors, int count, const SgdSettings& settings,
               DeviceScalar learning_rate, Stream stream) {
  return for_tables(tensors, count, [&](const auto& table) {
    return launch(sgd<capacity_of<decltype(table)>>, blocks_of(table), kThreads, 0, stream, table, settings,
                  learning_rate);
  });
}

Status run_squared_norms(const NormTensor* tensors, int count, double* workspace, Stream stream) {
  double* sums = workspace;
  return for_tables(tensors, count, [&](const auto& table) {
    const Status status = launch(square_chunks<capacity_of<decltype(table)>>, blocks_of(table), kThreads, 0,
                                 stream, table, sums);
    if (status != cudaSuccess) return status;
    const double* const added = std::exchange(sums, sums + table.chunks);
    return launch(add_chunks<capacity_of<decltype(table)>>, table.count, kThreads, 0, stream, table, added);
  });
}

}  // namespace alpa::cuda
