// kernels/cuda/pooling.cu — max_pool and max_pool_grad
#include "kernels/cuda/pooling.h"

#include "kernels/cuda/floating.h"
#include "kernels/cuda/window_walk.h"

namespace alpa::cuda {
namespace {

using kernels::PoolingShape;

constexpr int kThreads = 256;

template <class T>
__device__ inline Sum<T> element_at(const PoolingShape& s, const T* x, const PixelPlace& place,
                                    std::int64_t row, std::int64_t column) {
  return widened_at(x, pixel_at(place, s.h.in, s.w.in, row, column, s.channels) + place.channel);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    take_largest(const __grid_constant__ PoolingShape s, const T* x, T* y, std::int64_t count) {
  for_share(count, [&](std::int64_t i) {
    const PixelPlace to = place_of(i, s.h.out, s.w.out, s.channels);
    Sum<T> largest = -static_cast<Sum<T>>(INFINITY);
    for_sources(s.h, s.w, to.row, to.column,
                [&](std::int64_t row, std::int64_t column, std::int64_t, std::int64_t) {
                  const Sum<T> v = element_at(s, x, to, row, column);
                  if (!(largest >= v) && largest == largest) largest = v;
                });
    y[i] = Element<T>::narrow(largest);
  });
}

/// Whether element `own` at `place` is the first of the largest of a window.
template <class T>
__device__ bool wins(const PoolingShape& s, const T* x, const PixelPlace& place, Sum<T> own,
                     std::int64_t window_row, std::int64_t window_column) {
  for (std::int64_t r = 0; r < s.h.size; ++r)
    for (std::int64_t c = 0; c < s.w.size; ++c) {
      const std::int64_t row = source_of(s.h, window_row, r),
                         column = source_of(s.w, window_column, c);
      if (row < 0 || column < 0 || (row == place.row && column == place.column)) continue;
      const Sum<T> v = element_at(s, x, place, row, column);
      const bool before = row < place.row || (row == place.row && column < place.column);
      if (before ? !(own > v) : !(own >= v)) return false;
    }
  return true;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spread_slopes(const __grid_constant__ PoolingShape s, const T* dy, const T* x, T* dx,
                  std::int64_t count) {
  for_share(count, [&](std::int64_t i) {
    const PixelPlace to = place_of(i, s.h.in, s.w.in, s.channels);
    const Sum<T> own = widened_at(x, i);
    Sum<T> sum = 0;
    for_windows(s.h, s.w, to,
                [&](std::int64_t row, std::int64_t column, std::int64_t, std::int64_t) {
                  if (wins(s, x, to, own, row, column))
                    sum += widened_at(
                        dy, pixel_at(to, s.h.out, s.w.out, row, column, s.channels) + to.channel);
                });
    dx[i] = Element<T>::narrow(sum);
  });
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
