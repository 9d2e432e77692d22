#pragma once
/// From an elementwise program over local tensors to what the device runs: instructions for the
/// interpreting kernel, or CUDA C++ for the run-time compiler. Host code, pure functions.
#include <optional>
#include <string>

#include "alpa/tensor/kernel.h"
#include "kernels/cpu/elementwise_plan.h"
#include "kernels/cuda/elementwise.h"

namespace alpa::cuda {

/// The instructions of `plan`, which `cpu::plan_elementwise` made of `call`. Nothing if the program exceeds
/// a limit of kernels/cuda/elementwise.h: compile `elementwise_source` then.
std::optional<ElementwiseLaunch> lower_elementwise(const cpu::ElementwisePlan& plan,
                                                   const KernelCall& call);

/// The same as the text of one kernel, `extern "C" fused(inputs…, outputs…, bool aligned)`: pointers in
/// order, and whether those of all tensors but the repeated scalars are multiples of 16 bytes. Equal texts
/// are equal programs over equal shapes, so the text is the key of a cache. It includes
/// kernels/cuda/fused.h. Threads of a block: kFusedThreads; blocks: as many as there are packs of
/// `pack_of(plan.wide)` elements, or fewer.
std::string elementwise_source(const cpu::ElementwisePlan& plan, const KernelCall& call);
inline constexpr int kFusedThreads = 256;

}  // namespace alpa::cuda
