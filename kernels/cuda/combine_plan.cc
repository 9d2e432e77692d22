// kernels/cuda/combine_plan.cc — plans collectives between logical devices as boxes to combine
#include "kernels/cuda/combine.h"
#include "kernels/cuda/copy.h"

namespace alpa::cuda {

CombineBox whole_box(std::int64_t elements) {
  CombineBox box;
  box.dims = 1, box.extent[0] = elements, box.from_stride[0] = 1, box.to_stride[0] = 1;
  return box;
}

bool plan_box(CombineBox& box, int rank, const std::int64_t* extent,
              const std::int64_t* from_stride, const std::int64_t* to_stride,
              std::int64_t from_begin, std::int64_t to_begin) {
  CopyLaunch copy;
  if (!plan_copy(copy, 1, rank, extent, from_stride, to_stride, from_begin, to_begin)) return false;
  if (copy.dims == 0) {
    box = whole_box(copy.elements);
    box.from_begin = from_begin, box.to_begin = to_begin;
    return true;
  }
  box = {};
  box.dims = copy.dims, box.from_begin = from_begin, box.to_begin = to_begin;
  for (int d = 0; d < copy.dims; ++d) {
    box.extent[d] = copy.extent[d];
    box.from_stride[d] = copy.x_stride[d];
    box.to_stride[d] = copy.y_stride[d];
  }
  return true;
}

}  // namespace alpa::cuda
