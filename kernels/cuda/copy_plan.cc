// kernels/cuda/copy_plan.cc — plans strided copies: merged dimensions,
// vector widths, transpositions
#include <cstdint>

#include "kernels/cuda/copy.h"

namespace alpa::cuda {

bool plan_copy(CopyLaunch& launch, int element, int rank, const std::int64_t* extent,
               const std::int64_t* x_stride, const std::int64_t* y_stride, std::int64_t x_begin,
               std::int64_t y_begin) {
  CopyLaunch c;
  c.element = element, c.x_begin = x_begin, c.y_begin = y_begin;
  for (int d = 0; d < rank; ++d) c.elements *= extent[d];
  for (int d = 0; d < rank && c.elements > 0; ++d) {
    if (extent[d] == 1) continue;
    const int last = c.dims - 1;
    if (last >= 0 && c.x_stride[last] == x_stride[d] * extent[d] &&
        c.y_stride[last] == y_stride[d] * extent[d]) {
      c.extent[last] *= extent[d];
      c.x_stride[last] = x_stride[d];
      c.y_stride[last] = y_stride[d];
      continue;
    }
    if (c.dims == kMaxDims) return false;
    c.extent[c.dims] = extent[d];
    c.x_stride[c.dims] = x_stride[d];
    c.y_stride[c.dims++] = y_stride[d];
  }
  launch = c;
  return true;
}

CopyLaunch widened(const CopyLaunch& launch, const void* x, const void* y) {
  CopyLaunch c = launch;
  const auto at_x = reinterpret_cast<std::uintptr_t>(x), at_y = reinterpret_cast<std::uintptr_t>(y);
  const auto halves = [&] {
    const int last = c.dims - 1;
    if (c.dims == 0 || c.element >= 16 || c.x_stride[last] != 1 || c.y_stride[last] != 1)
      return false;
    bool even = c.extent[last] % 2 == 0 && c.x_begin % 2 == 0 && c.y_begin % 2 == 0;
    for (int d = 0; d < last; ++d) even = even && c.x_stride[d] % 2 == 0 && c.y_stride[d] % 2 == 0;
    const auto bytes = static_cast<std::uintptr_t>(2 * c.element);
    return even && at_x % bytes == 0 && at_y % bytes == 0;
  };
  while (halves()) {
    c.element *= 2;
    c.x_begin /= 2, c.y_begin /= 2, c.elements /= 2;
    for (int d = 0; d < c.dims - 1; ++d) c.x_stride[d] /= 2, c.y_stride[d] /= 2;
    c.extent[c.dims - 1] /= 2;
  }
  return c;
}

int transposed_vector(const CopyLaunch& c, const void* x, const void* y) {
  const int fast = transposed_dim(c), last = c.dims - 1;
  const auto at_x = reinterpret_cast<std::uintptr_t>(x), at_y = reinterpret_cast<std::uintptr_t>(y);
  const auto fits = [&](int v) {
    const auto bytes = static_cast<std::uintptr_t>(v) * c.element;
    bool whole = at_x % bytes == 0 && at_y % bytes == 0 && c.x_begin % v == 0 &&
                 c.y_begin % v == 0 && c.extent[fast] % v == 0 && c.extent[last] % v == 0;
    for (int d = 0; d < c.dims; ++d)
      whole =
          whole && (d == fast || c.x_stride[d] % v == 0) && (d == last || c.y_stride[d] % v == 0);
    return whole;
  };
  for (int v = c.element <= 4 ? 4 : 16 / c.element; v > 1; v /= 2)
    if ((v > 2 || c.element > 1) && fits(v)) return v;
  return 1;
}

int transposed_dim(const CopyLaunch& launch) {
  const int last = launch.dims - 1;
  if (last < 1 || launch.y_stride[last] != 1 || launch.x_stride[last] <= 1) return -1;
  for (int d = 0; d < last; ++d)
    if (launch.x_stride[d] == 1) return d;
  return -1;
}

}  // namespace alpa::cuda
