// kernels/cuda/message_box.cc — boxes of tensors sent between meshes, as strided copies
#include "kernels/cuda/message_box.h"

#include "alpa/base/error.h"
#include "kernels/cuda/shard_blocks.h"
#include "kernels/plan/strided_copy_plan.h"

namespace alpa::cuda {
bool MessageBox::is_dense() const {
  std::int64_t stride = 1;  // that the next dimension outwards must have
  for (std::size_t d = extent.size(); elements > 0 && d-- > 0; stride *= extent[d])
    if (extent[d] != 1 && strides[d] != stride) return false;
  return true;
}

MessageBox message_box(const KernelTensor& local, const Shape& begin, const Shape& extent) {
  MessageBox box{extent, kernels::dense_strides(local.type.shape)};
  for (std::size_t d = 0; d < extent.size(); ++d) {
    const std::int64_t at = begin[d] - local.offset[d];
    invariant(at >= 0 && at + extent[d] <= local.type.shape[d],
              "message of a box of {} at {}: the device holds {} at {}", alpa::to_string(extent),
              alpa::to_string(begin), alpa::to_string(local.type.shape),
              alpa::to_string(local.offset));
    box.begin += at * box.strides[d];
    box.elements *= extent[d];
  }
  return box;
}

MessageBox packed(const MessageBox& box) {
  return {box.extent, kernels::dense_strides(box.extent), 0, box.elements};
}

CopyLaunch copy_of(const MessageBox& from, const MessageBox& to, DType dtype) {
  CopyLaunch copy;
  require(
      plan_copy(copy, static_cast<int>(size_of(dtype)), static_cast<int>(from.extent.size()),
                from.extent.data(), from.strides.data(), to.strides.data(), from.begin, to.begin),
      "message of a box of {}: the kernel takes at most {} dimensions",
      alpa::to_string(from.extent), kMaxDims);
  return copy;
}

std::int64_t box_scratch_bytes(const MessageBox& box, DType dtype) {
  if (box.is_dense()) return 0;
  const std::int64_t bytes = box.elements * static_cast<std::int64_t>(size_of(dtype));
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

}  // namespace alpa::cuda
