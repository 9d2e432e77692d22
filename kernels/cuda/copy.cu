// kernels/cuda/copy.cu — strided copies, constants, indices
#include "kernels/cuda/copy.h"

#include "kernels/cuda/copy_place.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

/// Neighbouring threads copy neighbouring elements, each several that are a block apart: all are
/// loaded, the last element instead of those behind it, before the first is stored.
template <class W>
__global__ void __launch_bounds__(kThreads)
    copy_elements(const __grid_constant__ CopyLaunch c, const W* x, W* y) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kPerThread;
  std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kPerThread + threadIdx.x;
  for (; first < c.elements; first += stride) {
    std::int64_t index[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      index[k] = first + k * kThreads;
      if (index[k] >= c.elements) index[k] = c.elements - 1;
    }
    CopyPlace place[kPerThread];
    places_of(place, c, index);
    W value[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) value[k] = x[place[k].x];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k)
      if (first + k * kThreads < c.elements) y[place[k].y] = value[k];
  }
}

// ---- from nothing
// ---------------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads)
    fill(T* y, std::int64_t elements, T value, bool packed) {
  constexpr int n = 16 / static_cast<int>(sizeof(T));
  T pack[n];
#pragma unroll
  for (int i = 0; i < n; ++i) pack[i] = value;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * n;
  std::int64_t begin = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * n;
  for (; begin < elements; begin += stride) {
    if (packed && begin + n <= elements) {
      store_words(y + begin, pack);
    } else {
      for (std::int64_t i = begin; i < begin + n && i < elements; ++i) y[i] = value;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) iota(T* y, std::int64_t elements, std::int64_t extent,
                                                 std::int64_t inner, std::int64_t offset) {
  for_share(elements, [&](std::int64_t i) {
    const std::int64_t index = offset + divide(divide(i, inner).quotient, extent).remainder;
    y[i] = Element<T>::narrow(static_cast<double>(index));
  });
}

}  // namespace

Status run_copy(const CopyLaunch& launched, const void* x, void* y, Stream stream) {
  const CopyLaunch c = widened(launched, x, y);
  if (c.elements == 0) return cudaSuccess;
  if (transposed_dim(c) >= 0) return run_transpose(c, x, y, stream);
  return with_word(c.element, [&](auto word) {
    using W = decltype(word);
    return launch(copy_elements<W>, blocks_for(c.elements, kThreads * kPerThread), kThreads, 0,
                  stream, c, static_cast<const W*>(x), static_cast<W*>(y));
  });
}

Status run_fill(void* y, DType dtype, std::int64_t elements, double value, Stream stream) {
  return with_element(dtype, [&](auto t) {
    using T = decltype(t);
    return launch(
        fill<T>, blocks_for(elements, kThreads * (16 / static_cast<std::int64_t>(sizeof(T)))),
        kThreads, 0, stream, static_cast<T*>(y), elements, Element<T>::narrow(value), aligned16(y));
  });
}

Status run_iota(void* y, DType dtype, std::int64_t elements, std::int64_t extent,
                std::int64_t inner, std::int64_t offset, Stream stream) {
  return with_element(dtype, [&](auto t) {
    using T = decltype(t);
    return launch(iota<T>, blocks_for(elements, kThreads), kThreads, 0, stream, static_cast<T*>(y),
                  elements, extent, inner, offset);
  });
}

}  // namespace alpa::cuda
