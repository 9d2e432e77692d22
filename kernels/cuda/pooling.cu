// kernels/cuda/pooling.cu — max_pool and max_pool_grad
#include "kernels/cuda/pooling.h"

#include "kernels/cuda/floating.h"
#include "kernels/cuda/window_walk.h"

namespace alpa::cuda {
namespace {

using kernels::PoolingShape;

constexpr int kThreads = 256;

/// Numbers from `begin` up to `end`.
struct Span {
  int begin, end;
};

/// The rows (or columns) of x that window `o` shows.
__device__ inline Span shown(const kernels::WindowDim& d, int o) {
  const int in = static_cast<int>(d.in),
            begin = o * static_cast<int>(d.stride) - static_cast<int>(d.pad),
            end = begin + static_cast<int>(d.size);
  return {begin > 0 ? begin : 0, end < in ? end : in};
}

/// The windows that show row (or column) `i` of x.
__device__ inline Span windows_of(const kernels::WindowDim& d, int i) {
  const int stride = static_cast<int>(d.stride), out = static_cast<int>(d.out),
            last = i + static_cast<int>(d.pad), first = last - static_cast<int>(d.size) + 1,
            end = last / stride + 1;
  return {first > 0 ? (first + stride - 1) / stride : 0, end < out ? end : out};
}

/// A pack of n neighbouring channels of one pixel: its place, `channel` being the first.
template <int n>
__device__ inline PixelPlace pack_place(std::int64_t index, const kernels::PoolingShape& s,
                                        std::int64_t rows, std::int64_t columns) {
  PixelPlace place = place_of(index, rows, columns, s.channels / n);
  place.channel *= n;
  return place;
}

template <class T, int n>
__device__ inline void load_pixel(Sum<T> (&v)[n], const T* x, const PoolingShape& s,
                                  const PixelPlace& place, int row, int column) {
  load_pack<T>(v, x + pixel_at(place, s.h.in, s.w.in, row, column, s.channels) + place.channel);
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    take_largest(const __grid_constant__ PoolingShape s, const T* x, T* y, std::int64_t packs) {
  for_share(packs, [&](std::int64_t i) {
    const PixelPlace to = pack_place<n>(i, s, s.h.out, s.w.out);
    const Span rows = shown(s.h, static_cast<int>(to.row)),
               columns = shown(s.w, static_cast<int>(to.column));
    Sum<T> largest[n];
#pragma unroll
    for (int k = 0; k < n; ++k) largest[k] = -static_cast<Sum<T>>(INFINITY);
    for (int row = rows.begin; row < rows.end; ++row)
      for (int column = columns.begin; column < columns.end; ++column) {
        Sum<T> v[n];
        load_pixel(v, x, s, to, row, column);
#pragma unroll
        for (int k = 0; k < n; ++k)
          if (!(largest[k] >= v[k]) && largest[k] == largest[k]) largest[k] = v[k];
      }
    store_pack<T>(y + i * n, largest);
  });
}

/// A bit for each element of the pack `own` at `place` that is the first of the largest of a
/// window.
template <class T, int n>
__device__ __forceinline__ unsigned winners(const PoolingShape& s, const T* x,
                                            const PixelPlace& place, const Sum<T> (&own)[n],
                                            int window_row, int window_column) {
  const Span rows = shown(s.h, window_row), columns = shown(s.w, window_column);
  unsigned won = (1u << n) - 1;
  for (int row = rows.begin; row < rows.end; ++row)
    for (int column = columns.begin; column < columns.end; ++column) {
      if (row == place.row && column == place.column) continue;
      const bool before = row < place.row || (row == place.row && column < place.column);
      Sum<T> v[n];
      load_pixel(v, x, s, place, row, column);
#pragma unroll
      for (int k = 0; k < n; ++k)
        if (before ? !(own[k] > v[k]) : !(own[k] >= v[k])) won &= ~(1u << k);
    }
  return won;
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads, 4)
    spread_slopes(const __grid_constant__ PoolingShape s, const T* dy, const T* x, T* dx,
                  std::int64_t packs) {
  for_share(packs, [&](std::int64_t i) {
    const PixelPlace to = pack_place<n>(i, s, s.h.in, s.w.in);
    const Span rows = windows_of(s.h, static_cast<int>(to.row)),
               columns = windows_of(s.w, static_cast<int>(to.column));
    Sum<T> own[n], sum[n] = {};
    load_pack<T>(own, x + i * n);
    for (int row = rows.begin; row < rows.end; ++row)
      for (int column = columns.begin; column < columns.end; ++column) {
        const unsigned won = winners(s, x, to, own, row, column);
        if (won == 0) continue;
        Sum<T> slope[n];
        load_pack<T>(slope,
                     dy + pixel_at(to, s.h.out, s.w.out, row, column, s.channels) + to.channel);
#pragma unroll
        for (int k = 0; k < n; ++k)
          if ((won >> k & 1) != 0) sum[k] += slope[k];
      }
    store_pack<T>(dx + i * n, sum);
  });
}

}  // namespace

Status run_max_pool(const PoolingLaunch& l, const void* x, void* y, Stream stream) {
  const PoolingShape& s = l.shape;
  return with_packs(l.dtype, s.channels, {x, y}, [&](auto element, auto pack) {
    using T = decltype(element);
    const std::int64_t packs = s.batch * s.h.out * s.w.out * s.channels / pack;
    return launch(take_largest<T, pack>, blocks_for(packs, kThreads, 65535), kThreads, 0, stream, s,
                  static_cast<const T*>(x), static_cast<T*>(y), packs);
  });
}

Status run_max_pool_grad(const PoolingLaunch& l, const void* dy, const void* x, void* dx,
                         Stream stream) {
  const PoolingShape& s = l.shape;
  return with_packs(l.dtype, s.channels, {dy, x, dx}, [&](auto element, auto pack) {
    using T = decltype(element);
    const std::int64_t packs = s.batch * s.h.in * s.w.in * s.channels / pack;
    return launch(spread_slopes<T, pack>, blocks_for(packs, kThreads, 65535), kThreads, 0, stream,
                  s, static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dx),
                  packs);
  });
}

}  // namespace alpa::cuda
