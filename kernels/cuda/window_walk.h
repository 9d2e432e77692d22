#pragma once
/// Positions of sliding windows, in device code.
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

}  // namespace alpa::cuda
