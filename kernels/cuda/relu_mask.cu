// kernels/cuda/relu_mask.cu — relu and its gradient with a bit mask, for products whose
// epilogue computes neither
#include "kernels/cuda/relu_mask.h"

#include "kernels/cuda/floating.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPacks = 4;  ///< of 16 bytes a thread, all read before the first is used
constexpr int kBits = 8;

template <class T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));
/// Neighbouring threads whose bits make a byte.
template <class T>
constexpr int kSharers = kBits / kPack<T>;

/// This thread's packs: `first`, then every kThreads-th.
__device__ inline std::int64_t first_pack() {
  return static_cast<std::int64_t>(blockIdx.x) * (kThreads * kPacks) + threadIdx.x;
}

template <bool aligned, class T>
__device__ inline void read(T (&pack)[kPack<T>], const T* from) {
  if constexpr (aligned) {
    load_words(pack, from);
  } else {
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) pack[i] = from[i];
  }
}

template <bool aligned, class T>
__device__ inline void write(T* to, const T (&pack)[kPack<T>]) {
  if constexpr (aligned) {
    store_words(to, pack);
  } else {
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) to[i] = pack[i];
  }
}

/// The bits of the threads that share a byte, in the first of them. All
/// threads of the warp call it.
template <class T>
__device__ inline unsigned shared_byte(unsigned set) {
#pragma unroll
  for (int by = 1; by < kSharers<T>; by *= 2)
    set |= __shfl_down_sync(0xffffffffu, set, by) << (by * kPack<T>);
  return set;
}

/// z = relu(z + bias); the bits of what is above 0.
template <class T>
__device__ inline unsigned relu_pack(T (&z)[kPack<T>], const T (&bias)[kPack<T>], bool biased) {
  using S = Sum<T>;
  unsigned set = 0;
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) {
    if (biased)
      z[i] = Element<T>::template narrow<S>(Element<T>::template widen<S>(z[i]) +
                                            Element<T>::template widen<S>(bias[i]));
    const S x = Element<T>::template widen<S>(z[i]);
    if (x <= 0) z[i] = Element<T>::template narrow<S>(0);
    set |= static_cast<unsigned>(x > 0) << i;
  }
  return set;
}

template <class T, bool aligned>
__global__ void __launch_bounds__(kThreads)
    relu_mask(std::int64_t packs, const T* bias, std::int64_t n, std::int64_t step, T* z,
              unsigned char* bits) {
  const std::int64_t first = first_pack();
  T values[kPacks][kPack<T>], added[kPacks][kPack<T>] = {};
#pragma unroll
  for (int p = 0; p < kPacks; ++p)
    if (first + p * kThreads < packs)
      read<aligned>(values[p], z + (first + p * kThreads) * kPack<T>);
  if (bias != nullptr) {
    std::int64_t column = divide(first * kPack<T>, n).remainder;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      read<aligned>(added[p], bias + column);
      column += step;
      if (column >= n) column -= n;
    }
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t at = first + p * kThreads;
    const unsigned set = shared_byte<T>(relu_pack(values[p], added[p], bias != nullptr));
    if (at >= packs) continue;
    write<aligned>(z + at * kPack<T>, values[p]);
    if (at % kSharers<T> == 0) bits[at / kSharers<T>] = static_cast<unsigned char>(set);
  }
}

template <class T, bool aligned>
__global__ void __launch_bounds__(kThreads)
    apply_relu_mask(std::int64_t packs, const unsigned char* bits, T* x) {
  const std::int64_t first = first_pack();
  T values[kPacks][kPack<T>];
  unsigned set[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t at = first + p * kThreads;
    if (at >= packs) continue;
    read<aligned>(values[p], x + at * kPack<T>);
    set[p] = bits[at / kSharers<T>];
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const std::int64_t at = first + p * kThreads;
    if (at >= packs) continue;
    const int own = static_cast<int>(at % kSharers<T>) * kPack<T>;
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i)
      if ((set[p] >> (own + i) & 1) == 0) values[p][i] = Element<T>::narrow(0.0f);
    write<aligned>(x + at * kPack<T>, values[p]);
  }
}

template <class T>
std::int64_t packs_of(std::int64_t bytes) {
  return bytes * kSharers<T>;
}

template <class T>
std::int64_t blocks_of(std::int64_t bytes) {
  return divide_up(packs_of<T>(bytes), kThreads * kPacks);
}

}  // namespace

Status run_relu_mask(DType dtype, std::int64_t bytes, const void* bias, std::int64_t n, void* z,
                     void* bits, Stream stream) {
  return with_floating(dtype, [&](auto t) {
    using T = decltype(t);
    const bool aligned = aligned16(z) && aligned16(bias);
    const std::int64_t step = n > 0 ? std::int64_t{kThreads * kPack<T>} % n : 0;
    return launch(aligned ? relu_mask<T, true> : relu_mask<T, false>, blocks_of<T>(bytes), kThreads,
                  0, stream, packs_of<T>(bytes), static_cast<const T*>(bias), n, step,
                  static_cast<T*>(z), static_cast<unsigned char*>(bits));
  });
}

Status run_apply_relu_mask(DType dtype, std::int64_t bytes, const void* bits, void* x,
                           Stream stream) {
  return with_floating(dtype, [&](auto t) {
    using T = decltype(t);
    return launch(aligned16(x) ? apply_relu_mask<T, true> : apply_relu_mask<T, false>,
                  blocks_of<T>(bytes), kThreads, 0, stream, packs_of<T>(bytes),
                  static_cast<const unsigned char*>(bits), static_cast<T*>(x));
  });
}

}  // namespace alpa::cuda
