#pragma once
/// Boxes of tensors sent between devices of different meshes. Plain
/// arithmetic, which needs no card.
#include "kernels/cuda/copy.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

/// A box of a dense local tensor: its first element there, its extent, and the tensor's strides.
struct MessageBox {
  Shape extent, strides;
  std::int64_t begin = 0, elements = 1;

  /// Whether the elements follow one another without a gap.
  bool is_dense() const;
};

/// The box of `extent` at `begin` of the whole tensor. Throws Bug if the
/// local part does not hold it.
MessageBox message_box(const KernelTensor& local, const Shape& begin, const Shape& extent);

/// The box as one dense block.
MessageBox packed(const MessageBox& box);

/// The copy from one box to another of the same extent, of elements of `dtype`. Throws Error naming
/// the limit if they have too many dimensions.
CopyLaunch copy_of(const MessageBox& from, const MessageBox& to, DType dtype);

/// Scratch that a box takes to be sent or received as one dense block: nothing if it is one.
std::int64_t box_scratch_bytes(const MessageBox& box, DType dtype);

}  // namespace alpa::cuda
