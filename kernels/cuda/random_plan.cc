// kernels/cuda/random_plan.cc — plans launches of random operators
#include "kernels/cuda/random.h"

namespace alpa::cuda {

bool plan_random(RandomLaunch& launch, Distribution distribution, DType dtype, std::uint64_t stream,
                 double a, double b, int rank, const std::int64_t* extent, const std::int64_t* at,
                 const std::int64_t* whole) {
  RandomLaunch r;
  r.dtype = dtype, r.distribution = distribution, r.stream = stream;
  r.offset = a;
  r.scale = distribution == Distribution::uniform ? b - a
            : distribution == Distribution::kept  ? 1 / (1 - a)
                                                  : b;
  std::int64_t outer_extent[kMaxDims], outer_stride[kMaxDims], scale = 1;
  int outer = 0;
  bool contiguous = true;  // all dimensions so far are whole: the next one prolongs the row
  for (int d = rank - 1; d >= 0; --d) {
    r.begin += at[d] * scale;
    if (contiguous) {
      r.columns *= extent[d];
    } else if (extent[d] != 1) {
      if (outer == kMaxDims) return false;
      outer_extent[outer] = extent[d], outer_stride[outer++] = scale;
    }
    contiguous = contiguous && extent[d] == whole[d];
    scale *= whole[d];
  }
  for (int i = outer - 1; i >= 0; --i) {
    r.rows.extent[r.rows.dims] = outer_extent[i];
    r.rows.stride[r.rows.dims++] = outer_stride[i];
    r.row_count *= outer_extent[i];
  }
  launch = r;
  return true;
}

}  // namespace alpa::cuda
