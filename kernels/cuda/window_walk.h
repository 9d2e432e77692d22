#pragma once
/// Positions of sliding windows, and loops over them, in device code.
#include "kernels/cuda/device.h"
#include "kernels/plan/windows.h"

namespace alpa::cuda {

/// The source element that tap `t` of window `o` shows; -1: padding.
__device__ inline std::int64_t source_of(const kernels::WindowDim& d, std::int64_t o,
                                         std::int64_t t) {
  const std::int64_t i = o * d.stride - d.pad + t * d.dilation;
  return i >= 0 && i < d.in ? i : -1;
}

/// The window whose tap `t` shows element `i`; -1: none.
__device__ inline std::int64_t window_of(const kernels::WindowDim& d, std::int64_t i,
                                         std::int64_t t) {
  const std::int64_t o = i + d.pad - t * d.dilation;
  if (o < 0) return -1;
  const Division at = divide(o, d.stride);
  return at.remainder == 0 && at.quotient < d.out ? at.quotient : -1;
}

/// Coordinates of element `index` of an image tensor [batch, rows, columns, channels].
struct PixelPlace {
  std::int64_t image, row, column, channel;
};
__device__ inline PixelPlace place_of(std::int64_t index, std::int64_t rows, std::int64_t columns,
                                      std::int64_t channels) {
  const Division channel = divide(index, channels), column = divide(channel.quotient, columns),
                 row = divide(column.quotient, rows);
  return {row.quotient, row.remainder, column.remainder, channel.remainder};
}

/// Number of the first channel of a pixel.
__device__ inline std::int64_t pixel_at(const PixelPlace& place, std::int64_t rows,
                                        std::int64_t columns, std::int64_t row, std::int64_t column,
                                        std::int64_t channels) {
  return ((place.image * rows + row) * columns + column) * channels;
}

/// body(row, column, tap's row, tap's column) for the source elements that a window shows.
template <class Body>
__device__ void for_sources(const kernels::WindowDim& h, const kernels::WindowDim& w,
                            std::int64_t window_row, std::int64_t window_column, const Body& body) {
  for (std::int64_t r = 0; r < h.size; ++r)
    for (std::int64_t c = 0; c < w.size; ++c) {
      const std::int64_t row = source_of(h, window_row, r), column = source_of(w, window_column, c);
      if (row >= 0 && column >= 0) body(row, column, r, c);
    }
}

/// body(row, column, tap's row, tap's column) for the windows that show the element at `place`, in
/// their order.
template <class Body>
__device__ void for_windows(const kernels::WindowDim& h, const kernels::WindowDim& w,
                            const PixelPlace& place, const Body& body) {
  for (std::int64_t r = h.size; r-- > 0;)
    for (std::int64_t c = w.size; c-- > 0;) {
      const std::int64_t row = window_of(h, place.row, r), column = window_of(w, place.column, c);
      if (row >= 0 && column >= 0) body(row, column, r, c);
    }
}

}  // namespace alpa::cuda
