#pragma once
/// Positions of the elements of a copy. Device code only.
#include "kernels/cuda/copy.h"
#include "kernels/cuda/device.h"

namespace alpa::cuda {

struct CopyPlace {
  std::int64_t x, y;
};

/// Where indices, row-major over all dimensions, stand in both tensors. The divisions of all
/// indices by one extent are done side by side.
template <int count>
__device__ inline void places_of(CopyPlace (&places)[count], const CopyLaunch& c,
                                 std::int64_t (&index)[count]) {
#pragma unroll
  for (int k = 0; k < count; ++k) places[k] = {c.x_begin, c.y_begin};
#pragma unroll 1
  for (int d = c.dims - 1; d > 0; --d) {
#pragma unroll
    for (int k = 0; k < count; ++k) {
      const Division at = divide(index[k], c.extent[d]);
      places[k].x += at.remainder * c.x_stride[d];
      places[k].y += at.remainder * c.y_stride[d];
      index[k] = at.quotient;
    }
  }
  if (c.dims == 0) return;
#pragma unroll
  for (int k = 0; k < count; ++k) {
    places[k].x += index[k] * c.x_stride[0];
    places[k].y += index[k] * c.y_stride[0];
  }
}

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

}  // namespace alpa::cuda
