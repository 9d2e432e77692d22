#pragma once
/// Where the elements of a copy stand. Device code only.
#include "kernels/cuda/copy.h"
#include "kernels/cuda/device.h"

namespace alpa::cuda {

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
