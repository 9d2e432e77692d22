#pragma once
/// How the CUDA backend computes an einsum_epilogue: in one cuBLASLt product, or as a product
/// followed by other kernels.
#include <optional>

#include "kernels/cuda/einsum_plan.h"
#include "kernels/plan/epilogue.h"

namespace alpa::cuda {

struct EpilogueSteps {
  EinsumSteps einsum;
  Epilogue epilogue;  ///< as the node has it
  /// As the product sees it: operand 0 is the plan's a, which may be the node's operand 1.
  Epilogue of_product;
  /// Shapes and types allow the product to have the epilogue; cuBLASLt may still lack an algorithm.
  bool joint = false;
  /// Of an addend: where in the workspace the result without it is made, because the product is not
  /// made where the result is; kNowhere: the product takes it (beta = 1).
  std::int64_t before_addend = kNowhere;

  /// What the product has if the rest is computed apart.
  Epilogue of_product_apart() const { return {.add = epilogue.add && before_addend == kNowhere}; }
  std::optional<ReduceLaunch> sums;  ///< of the operand, if computed by a kernel of its own
  std::int64_t sums_workspace = 0;
  std::int64_t scratch_bytes = 0;  ///< enough for both ways
};

/// Does not read data pointers.
EpilogueSteps plan_epilogue(const KernelCall& call);

}  // namespace alpa::cuda
