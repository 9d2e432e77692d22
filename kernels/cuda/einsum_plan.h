#pragma once
/// How the CUDA backend computes an einsum: operands are summed over letters of only one operand,
/// converted and packed; then one or a few batched matrix products; then the result is unpacked and
/// converted. Planned from types alone, so that scratch memory is known without a card.
#include <optional>
#include <vector>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/reduce.h"
#include "kernels/plan/einsum_plan.h"
#include "src/tensor/elementwise_program.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

inline constexpr std::int64_t kNowhere = -1;
/// Products that one call may queue for the sake of batch dimensions that have no common stride;
/// beyond that the operands are packed.
inline constexpr std::int64_t kMaxProducts = 8;
/// Scratch parts begin at multiples of this, as workspaces do; cuBLASLt's own at multiples of 256.
inline constexpr std::int64_t kScratchAlignment = 64, kProductAlignment = 256;

/// How an operand becomes a matrix of type `EinsumSteps::operands`. Offsets are into the
/// workspace; kNowhere: no such step.
struct OperandSteps {
  int input = 0;                    ///< of the call
  std::optional<ReduceLaunch> sum;  ///< over letters of its own; converts, too
  std::int64_t sum_workspace = kNowhere;
  std::int64_t converted = kNowhere;  ///< where the sum, or the conversion, is
  std::int64_t elements = 0;          ///< of the converted tensor
  std::optional<CopyLaunch> pack;
  std::int64_t packed = kNowhere;
};

struct EinsumSteps {
  enum class Kind : std::uint8_t {
    nothing,   ///< the result has no elements
    zeros,     ///< sums of nothing
    multiply,  ///< nothing is summed: an elementwise product with repeated operands
    product,
  } kind = Kind::nothing;
  kernels::EinsumPlan plan;
  DType operands = f32, product_type = f32;  ///< of the matrices
  OperandSteps a, b;
  kernels::MatmulShape shape;            ///< of one product: at most one batch dimension
  std::vector<kernels::BatchDim> outer;  ///< over which the product is repeated
  std::int64_t product = kNowhere;       ///< where the product is made, if not in the result
  std::optional<CopyLaunch> unpack;
  std::int64_t unpacked = kNowhere;  ///< the product in the result's layout, to be converted then
  /// cuBLASLt's, within kProductAlignment more
  std::int64_t workspace = kNowhere, workspace_bytes = 0;
  std::int64_t scratch_bytes = 0;  ///< of all steps together
};

/// Throws Error if a copy or sum has too many dimensions for the kernels.
EinsumSteps plan_einsum_steps(const KernelCall& call);

/// The most workspace that a product of so many results may use: min(32 MiB, 8 · bytes of the
/// result in f32), rounded up to kProductAlignment.
std::int64_t product_workspace_bytes(std::int64_t results);

/// The elementwise program and call (without data) of a `multiply`.
struct MultiplyCall {
  ElementwiseProgram program;
  KernelCall call;
};
MultiplyCall multiply_call(const EinsumSteps& steps, const KernelCall& call);

}  // namespace alpa::cuda
