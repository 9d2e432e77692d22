// kernels/cuda/pooling.cu — max_pool and max_pool_grad
#include "kernels/cuda/pooling.h"

#include <type_traits>

#include "kernels/cuda/floating.h"
#include "kernels/cuda/window_walk.h"

namespace alpa::cuda {
namespace {

using kernels::PoolingShape;

constexpr int kThreads = 256;

template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
__device__ inline Real<T> element_at(const PoolingShape& s, const T* x, const PixelPlace& place,
                                     std::int64_t row, std::int64_t column) {
  const std::int64_t at = ((place.image * s.h.in + row) * s.w.in + column) * s.channels;
  return Element<T>::template widen<Real<T>>(x[at + place.channel]);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    take_largest(const __grid_constant__ PoolingShape s, const T* x, T* y, std::int64_t count) {
  begin_kernel();
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count;
       i += gridDim.x * std::int64_t{kThreads}) {
    const PixelPlace to = place_of(i, s.h.out, s.w.out, s.channels);
    Real<T> largest = -static_cast<Real<T>>(INFINITY);
    for (std::int64_t r = 0; r < s.h.size; ++r)
      for (std::int64_t c = 0; c < s.w.size; ++c) {
        const std::int64_t row = source_of(s.h, to.row, r), column = source_of(s.w, to.column, c);
        if (row < 0 || column < 0) continue;
        const Real<T> v = element_at(s, x, to, row, column);
        if (!(largest >= v) && largest == largest) largest = v;
      }
    y[i] = Element<T>::narrow(largest);
  }
}

/// Whether element `own` at (row, column) is the first of the largest of a window.
template <class T>
__device__ bool wins(const PoolingShape& s, const T* x, const PixelPlace& place, Real<T> own,
                     std::int64_t window_row, std::int64_t window_column) {
  for (std::int64_t r = 0; r < s.h.size; ++r)
    for (std::int64_t c = 0; c < s.w.size; ++c) {
      const std::int64_t row = source_of(s.h, window_row, r),
                         column = source_of(s.w, window_column, c);
      if (row < 0 || column < 0 || (row == place.row && column == place.column)) continue;
      const Real<T> v = element_at(s, x, place, row, column);
      const bool before = row < place.row || (row == place.row && column < place.column);
      if (before ? !(own > v) : !(own >= v)) return false;
    }
  return true;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spread_slopes(const __grid_constant__ PoolingShape s, const T* dy, const T* x, T* dx,
                  std::int64_t count) {
  begin_kernel();
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count;
       i += gridDim.x * std::int64_t{kThreads}) {
    const PixelPlace to = place_of(i, s.h.in, s.w.in, s.channels);
    const Real<T> own = Element<T>::template widen<Real<T>>(x[i]);
    Real<T> sum = 0;
    for (std::int64_t r = s.h.size; r-- > 0;)
      for (std::int64_t c = s.w.size; c-- > 0;) {
        const std::int64_t row = window_of(s.h, to.row, r), column = window_of(s.w, to.column, c);
        if (row < 0 || column < 0 || !wins(s, x, to, own, row, column)) continue;
        const std::int64_t at = ((to.image * s.h.out + row) * s.w.out + column) * s.channels;
        sum += Element<T>::template widen<Real<T>>(dy[at + to.channel]);
      }
    dx[i] = Element<T>::narrow(sum);
  }
}

}  // namespace

Status run_max_pool(const PoolingLaunch& l, const void* x, void* y, Stream stream) {
  const PoolingShape& s = l.shape;
  const std::int64_t count = s.batch * s.h.out * s.w.out * s.channels;
  return with_floating(l.dtype, [&](auto element) {
    using T = decltype(element);
    return launch(take_largest<T>, blocks_for(count, kThreads, 65535), kThreads, 0, stream, s,
                  static_cast<const T*>(x), static_cast<T*>(y), count);
  });
}

Status run_max_pool_grad(const PoolingLaunch& l, const void* dy, const void* x, void* dx,
                         Stream stream) {
  const PoolingShape& s = l.shape;
  const std::int64_t count = s.batch * s.h.in * s.w.in * s.channels;
  return with_floating(l.dtype, [&](auto element) {
    using T = decltype(element);
    return launch(spread_slopes<T>, blocks_for(count, kThreads, 65535), kThreads, 0, stream, s,
                  static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dx), count);
  });
}

}  // namespace alpa::cuda
