#pragma once
/// Collectives between logical devices that share a card: one kernel reads all members' buffers and
/// writes all targets'. Elements are combined in the order of the sources, as by `comm::combine`:
/// bf16 and f16 in f32, rounded once; i32 and u8 wrap; a maximum is NaN if one element is.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

inline constexpr int kMaxMembers = 64;

enum class CombineOp : std::uint8_t { sum, max };

/// targets[·][to_begin + Σ i·to_stride] = sources[0][from_begin + Σ i·from_stride] ⊕ sources[1][…]
/// ⊕ … for all indices i below `extent`: the same box of all sources, and of all targets. A whole
/// tensor is one dimension. reduce_scatter: a call per member, whose only target it is; all_gather:
/// a call per member, the only source.
struct CombineBox {
  int dims = 0;
  std::int64_t extent[kMaxDims] = {}, from_stride[kMaxDims] = {}, to_stride[kMaxDims] = {};
  std::int64_t from_begin = 0, to_begin = 0;
};

/// `elements` neighbours from the beginning.
CombineBox whole_box(std::int64_t elements);

/// A box of `rank` dimensions, outermost first, with neighbours merged. Returns false if
/// more than kMaxDims remain.
bool plan_box(CombineBox& box, int rank, const std::int64_t* extent,
              const std::int64_t* from_stride, const std::int64_t* to_stride,
              std::int64_t from_begin, std::int64_t to_begin);

/// 1 to kMaxMembers sources, 0 to kMaxMembers targets (arrays in host memory of device pointers). A
/// target may be a source if both boxes are equal; there must be no other overlap.
Status run_combine(DType dtype, CombineOp op, const CombineBox& box, int num_sources,
                   const void* const* sources, int num_targets, void* const* targets,
                   Stream stream);

}  // namespace alpa::cuda
