#pragma once
/// An einsum_epilogue as the CUDA backend computes it: jointly, in one product of cuBLASLt, or apart.
#include <optional>

#include "kernels/cuda/einsum_plan.h"
#include "kernels/plan/epilogue.h"

namespace alpa::cuda {

struct EpilogueSteps {
  EinsumSteps einsum;
  Epilogue epilogue;  ///< as the node has it
  /// As the product has it: operand 0 is the plan's a, which may be the node's operand 1.
  Epilogue of_product;
  /// Nothing in shapes and types speaks against the product having the epilogue; cuBLASLt may still lack
  /// an algorithm.
  bool joint = false;
  std::optional<ReduceLaunch> sums;  ///< of the operand, when computed apart
  std::int64_t sums_workspace = 0;
  std::int64_t scratch_bytes = 0;  ///< enough for either way
};

/// Data pointers are not looked at.
EpilogueSteps plan_epilogue(const KernelCall& call);

}  // namespace alpa::cuda
