#pragma once
/// Collectives between logical devices that share a card: one kernel reads all members' buffers and
/// writes all targets'. Elements are combined along the tree of the sources, as by `comm::combine`:
/// bf16 and f16 in f32, rounded once; i32 and u8 wrap; a maximum or a log_sum_exp, which is of
/// floating elements, is NaN if one element is.
#include "alpa/base/combiner.h"
#include "kernels/cuda/copy.h"

namespace alpa::cuda {

inline constexpr int kMaxMembers = 64;

/// `elements` neighbours from the beginning.
inline CopyLaunch whole_box(std::int64_t elements) {
  CopyLaunch box{.dims = 1, .elements = elements};
  box.extent[0] = elements, box.x_stride[0] = box.y_stride[0] = 1;
  return box;
}

/// targets[·] = the sources, combined, at the places that `box` (of elements of `dtype`) has
/// in x, all sources, and y, all targets. reduce_scatter: a call per member, whose only target it
/// is; all_gather: a call per member, the only source.
/// 1 to kMaxMembers sources, 0 to kMaxMembers targets (arrays in host memory of device pointers). A
/// target may be a source if both boxes are equal; there must be no other overlap.
Status run_combine(DType dtype, Combiner op, const CopyLaunch& box, int num_sources,
                   const void* const* sources, int num_targets, void* const* targets,
                   Stream stream);

}  // namespace alpa::cuda
