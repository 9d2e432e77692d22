// Strided copies, constants, indices
#include "kernels/cuda/copy.h"

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;

/// visit(W{}) with a word of `bytes`.
template <class Visit>
Status with_word(int bytes, const Visit& visit) {
  switch (bytes) {
    case 1: return visit(Word<1>::type());
    case 2: return visit(Word<2>::type());
    case 4: return visit(Word<4>::type());
    case 8: return visit(Word<8>::type());
    case 16: return visit(Word<16>::type());
    default: return cudaErrorInvalidValue;
  }
}

struct Place {
  std::int64_t x, y;
};

/// Where index `i`, row-major over all dimensions, stands in both tensors.
__device__ inline Place place_of(const CopyLaunch& c, std::int64_t i) {
  Place place = {c.x_begin, c.y_begin};
  for (int d = c.dims - 1; d > 0; --d) {
    const Division at = divide(i, c.extent[d]);
    place.x += at.remainder * c.x_stride[d];
    place.y += at.remainder * c.y_stride[d];
    i = at.quotient;
  }
  if (c.dims > 0) place.x += i * c.x_stride[0], place.y += i * c.y_stride[0];
  return place;
}

/// Neighbouring threads copy neighbouring elements, each several that are a block apart.
template <class W>
__global__ void __launch_bounds__(kThreads)
    copy_elements(const __grid_constant__ CopyLaunch c, const W* x, W* y) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kPerThread;
  std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kPerThread + threadIdx.x;
  for (; first < c.elements; first += stride) {
    W value[kPerThread];
    std::int64_t to[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const std::int64_t i = first + k * kThreads;
      to[k] = -1;
      if (i >= c.elements) continue;
      const Place place = place_of(c, i);
      value[k] = x[place.x];
      to[k] = place.y;
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k)
      if (to[k] >= 0) y[to[k]] = value[k];
  }
}

// ---- transposition
// ---------------------------------------------------------------------------------------------

/// `outer` walks the dimensions but the two that are transposed: x is contiguous along the `rows` one, y
/// along the `columns` one.
struct TransposeLaunch {
  CopyLaunch outer;
  std::int64_t rows, columns, x_stride, y_stride;  ///< y's stride of rows, x's of columns
  std::int64_t tiles_down, tiles_across;
};

template <class W>
constexpr int kSide = sizeof(W) >= 4 ? 32 : 64;

/// Square tiles: read along x's rows, written along y's. The padding spreads a tile's columns over the
/// banks.
template <class W>
__global__ void __launch_bounds__(kThreads)
    transpose_tiles(const __grid_constant__ TransposeLaunch t, const W* x, W* y) {
  constexpr int side = kSide<W>, step = kThreads / side, pad = sizeof(W) >= 4 ? 1 : 4 / sizeof(W);
  __shared__ W tile[side][side + pad];
  const int fast = threadIdx.x % side, slow = threadIdx.x / side;
  const std::int64_t tiles = t.outer.elements * t.tiles_down * t.tiles_across;
  for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const std::int64_t row = i / t.tiles_across % t.tiles_down * side, column = i % t.tiles_across * side;
    const Place place = place_of(t.outer, i / t.tiles_across / t.tiles_down);
    const W* const from = x + place.x + row + column * t.x_stride;
    W* const to = y + place.y + row * t.y_stride + column;
#pragma unroll
    for (int k = slow; k < side; k += step)
      if (column + k < t.columns && row + fast < t.rows) tile[k][fast] = from[k * t.x_stride + fast];
    __syncthreads();
#pragma unroll
    for (int k = slow; k < side; k += step)
      if (row + k < t.rows && column + fast < t.columns) to[k * t.y_stride + fast] = tile[fast][k];
    __syncthreads();
  }
}

TransposeLaunch transposition(const CopyLaunch& c, int fast, std::int64_t side) {
  const int last = c.dims - 1;
  TransposeLaunch t = {c, c.extent[fast], c.extent[last], c.x_stride[last], c.y_stride[fast], 0, 0};
  t.tiles_down = divide_up(t.rows, side);
  t.tiles_across = divide_up(t.columns, side);
  t.outer.dims = 0;
  t.outer.elements = c.elements / (t.rows * t.columns);
  for (int d = 0; d < last; ++d) {
    if (d == fast) continue;
    t.outer.extent[t.outer.dims] = c.extent[d];
    t.outer.x_stride[t.outer.dims] = c.x_stride[d];
    t.outer.y_stride[t.outer.dims++] = c.y_stride[d];
  }
  return t;
}

template <class W>
Status run_transpose(const CopyLaunch& c, int fast, const void* x, void* y, Stream stream) {
  const TransposeLaunch t = transposition(c, fast, kSide<W>);
  return launch(transpose_tiles<W>, blocks_for(t.outer.elements * t.tiles_down * t.tiles_across, 1, 65535),
                kThreads, 0, stream, t, static_cast<const W*>(x), static_cast<W*>(y));
}

// ---- from nothing
// ---------------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads) fill(T* y, std::int64_t elements, T value, bool packed) {
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
__global__ void __launch_bounds__(kThreads)
    iota(T* y, std::int64_t elements, std::int64_t extent, std::int64_t inner, std::int64_t offset) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < elements;
       i += stride) {
    const std::int64_t index = offset + divide(divide(i, inner).quotient, extent).remainder;
    y[i] = Element<T>::narrow(static_cast<double>(index));
  }
}

}  // namespace

Status run_copy(const CopyLaunch& launched, const void* x, void* y, Stream stream) {
  const CopyLaunch c = widened(launched, x, y);
  const int fast = transposed_dim(c);
  if (c.elements == 0) return cudaSuccess;
  return with_word(c.element, [&](auto word) {
    using W = decltype(word);
    if (fast >= 0) return run_transpose<W>(c, fast, x, y, stream);
    return launch(copy_elements<W>, blocks_for(c.elements, kThreads * kPerThread), kThreads, 0, stream, c,
                  static_cast<const W*>(x), static_cast<W*>(y));
  });
}

Status run_fill(void* y, DType dtype, std::int64_t elements, double value, Stream stream) {
  return with_element(dtype, [&](auto t) {
    using T = decltype(t);
    return launch(fill<T>, blocks_for(elements, kThreads * (16 / static_cast<std::int64_t>(sizeof(T)))),
                  kThreads, 0, stream, static_cast<T*>(y), elements, Element<T>::narrow(value),
                  aligned16(y));
  });
}

Status run_iota(void* y, DType dtype, std::int64_t elements, std::int64_t extent, std::int64_t inner,
                std::int64_t offset, Stream stream) {
  return with_element(dtype, [&](auto t) {
    using T = decltype(t);
    return launch(iota<T>, blocks_for(elements, kThreads), kThreads, 0, stream, static_cast<T*>(y),
                  elements, extent, inner, offset);
  });
}

}  // namespace alpa::cuda
