#pragma once
/// How the CUDA backend computes an einsum_group: in one batched product where the tensors lie side
/// by side, or one member after another.
#include "kernels/cuda/epilogue_plan.h"
#include "kernels/plan/einsum_group.h"

namespace alpa::cuda {

struct EinsumGroupSteps {
  EinsumGroup group;
  EpilogueSteps member;  ///< of each
  /// Shapes and types allow one product; cuBLASLt may still lack an algorithm.
  bool joint = false;
  std::int64_t workspace_bytes = 0;  ///< of the one product
  std::int64_t scratch_bytes = 0;    ///< enough for both ways
};

/// Does not read data pointers.
EinsumGroupSteps plan_einsum_group(const KernelCall& call);

}  // namespace alpa::cuda
