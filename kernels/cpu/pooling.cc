// kernels/cpu/pooling.cc — max_pool and its gradient: loops over channels
#include <algorithm>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/windows.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::PoolingShape;
using kernels::WindowDim;

constexpr std::int64_t kBlock = 256;  ///< channels at a time

/// The elements that a window shows, [begin, end).
struct Range {
  std::int64_t begin, end;
};
Range shown(const WindowDim& d, std::int64_t window) {
  const std::int64_t first = window * d.stride - d.pad;
  return {std::max<std::int64_t>(first, 0), std::min(first + d.size, d.in)};
}
/// The windows that show an element, [begin, end).
Range windows_of(const WindowDim& d, std::int64_t element) {
  const std::int64_t last = element + d.pad, first = last - d.size + 1;
  return {first <= 0 ? 0 : (first + d.stride - 1) / d.stride, std::min(last / d.stride + 1, d.out)};
}

/// visit(image, row, column, first channel, channels) for all pixels of images of this size.
template <class Visit>
void for_pixels(const KernelCall& call, const PoolingShape& s, std::int64_t rows,
                std::int64_t columns, const Visit& visit) {
  call.team->for_each(s.batch * rows * columns,
                      (1 << 13) / std::max<std::int64_t>(1, s.channels) + 1, [&](std::int64_t p) {
                        for (std::int64_t c = 0; c < s.channels; c += kBlock)
                          visit(p / (rows * columns), p / columns % rows, p % columns, c,
                                std::min(kBlock, s.channels - c));
                      });
}

template <class T>
void max_of_windows(const KernelCall& call) {
  const KernelTensor &x = call.inputs[0], &y = call.outputs[0];
  const PoolingShape s = kernels::pooling_shape(x, y, *call.attributes);
  for_pixels(
      call, s, s.h.out, s.w.out,
      [&](std::int64_t b, std::int64_t r, std::int64_t c, std::int64_t first, std::int64_t n) {
        T largest[kBlock], buffer[kBlock];
        std::fill_n(largest, n, -std::numeric_limits<T>::infinity());
        const Range rows = shown(s.h, r), columns = shown(s.w, c);
        for (std::int64_t i = rows.begin; i < rows.end; ++i)
          for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            const T* const v =
                read_block(buffer, x, ((b * s.h.in + i) * s.w.in + j) * s.channels + first, n);
            for (std::int64_t e = 0; e < n; ++e)
              largest[e] = largest[e] >= v[e] || largest[e] != largest[e] ? largest[e] : v[e];
          }
        store_block(y.data, y.type.dtype, ((b * s.h.out + r) * s.w.out + c) * s.channels + first,
                    largest, n);
      });
}

/// Adds dy of one window to the sums of element (row, column) where that is the first of the
/// window's largest.
template <class T>
struct Share {
  const KernelCall& call;
  const PoolingShape& s;
  const T* own;  ///< channels of the element
  std::int64_t image, row, column, first, n;

  void add(T* sums, std::int64_t window_row, std::int64_t window_column) const {
    T buffer[kBlock], slopes[kBlock];
    std::uint8_t wins[kBlock];
    std::fill_n(wins, n, std::uint8_t{1});
    const Range rows = shown(s.h, window_row), columns = shown(s.w, window_column);
    for (std::int64_t i = rows.begin; i < rows.end; ++i)
      for (std::int64_t j = columns.begin; j < columns.end; ++j) {
        if (i == row && j == column) continue;
        const T* const v = read_block(buffer, call.inputs[1],
                                      ((image * s.h.in + i) * s.w.in + j) * s.channels + first, n);
        if (i < row || (i == row && j < column))
          for (std::int64_t e = 0; e < n; ++e) wins[e] &= own[e] > v[e];
        else
          for (std::int64_t e = 0; e < n; ++e) wins[e] &= own[e] >= v[e];
      }
    const T* const dy = read_block(
        slopes, call.inputs[0],
        ((image * s.h.out + window_row) * s.w.out + window_column) * s.channels + first, n);
    for (std::int64_t e = 0; e < n; ++e) sums[e] += wins[e] ? dy[e] : T(0);
  }
};

template <class T>
void grad_of_max(const KernelCall& call) {
  const KernelTensor &x = call.inputs[1], &dx = call.outputs[0];
  const PoolingShape s = kernels::pooling_shape(x, call.inputs[0], *call.attributes);
  for_pixels(
      call, s, s.h.in, s.w.in,
      [&](std::int64_t b, std::int64_t r, std::int64_t c, std::int64_t first, std::int64_t n) {
        T sums[kBlock] = {}, buffer[kBlock];
        const std::int64_t at = ((b * s.h.in + r) * s.w.in + c) * s.channels + first;
        const Share<T> share{call, s, read_block(buffer, x, at, n), b, r, c, first, n};
        const Range rows = windows_of(s.h, r), columns = windows_of(s.w, c);
        for (std::int64_t i = rows.begin; i < rows.end; ++i)
          for (std::int64_t j = columns.begin; j < columns.end; ++j) share.add(sums, i, j);
        store_block(dx.data, dx.type.dtype, at, sums, n);
      });
}

}  // namespace

const KernelDef max_pool{run_floating<max_of_windows<float>, max_of_windows<double>>};
const KernelDef max_pool_grad{run_floating<grad_of_max<float>, grad_of_max<double>>};

}  // namespace alpa::cpu
