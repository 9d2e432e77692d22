#pragma once
/// Lowers an elementwise program over local tensors to instructions of the interpreting kernel, or
/// to CUDA C++ for the run-time compiler. Host code, pure functions.
#include <optional>
#include <string>

#include "kernels/cuda/elementwise.h"
#include "kernels/plan/elementwise_plan.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

/// The instructions of `plan`, which `kernels::plan_elementwise` made of `call`. Nothing if the
/// program exceeds a limit of kernels/cuda/elementwise.h: compile `elementwise_source` then.
std::optional<ElementwiseLaunch> lower_elementwise(const kernels::ElementwisePlan& plan,
                                                   const KernelCall& call);

/// The work of a thread of a compiled program at a time: `packs` packs of `pack` neighbouring
/// elements, all of whose reads it issues before it needs one. No access exceeds 16 bytes, those of
/// neighbouring threads touch.
struct FusedTile {
  int pack = 1, packs = 1;
};
FusedTile fused_tile(const kernels::ElementwisePlan& plan, const KernelCall& call);

/// The same as the text of one kernel, `extern "C" fused(inputs…, outputs…, bool aligned)`:
/// pointers in order, and whether those of all tensors but the repeated scalars are multiples of 16
/// bytes. Equal texts are equal programs over equal shapes, so the text is the key of a cache. It
/// includes kernels/cuda/fused.h. Threads of a block: kFusedThreads; blocks: any number.
std::string elementwise_source(const kernels::ElementwisePlan& plan, const KernelCall& call);
inline constexpr int kFusedThreads = 256;

}  // namespace alpa::cuda
