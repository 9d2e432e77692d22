#pragma once
/// Tokens by index to places of experts and back: contracts of `cpu::dispatch`, `cpu::combine` and
/// `cpu::expert_products`, except for places that no expert has. A kernel cannot throw: `dispatch`
/// ignores them, the others give NaN.
#include "kernels/cuda/launch.h"
#include "kernels/plan/experts_shape.h"

namespace alpa::cuda {

inline constexpr std::int64_t kMaxChoices = 0x7fffffff;  ///< of a group

/// `x`: tokens of `dispatch`, results of experts of `combine`. `weights`: float, of f64 double;
/// null: all are 1.
struct ExpertsTensors {
  const void* x = nullptr;
  const std::int32_t* places = nullptr;
  const void* weights = nullptr;
  void* y = nullptr;
};

/// A block fills 64 places of an expert. It looks at all choices of the group for those at its
/// places, then each warp copies rows; choices that share a place are added in their order.
Status run_dispatch(const kernels::ExpertsShape& shape, const ExpertsTensors& tensors,
                    Stream stream);

/// A warp per token.
Status run_combine(const kernels::ExpertsShape& shape, const ExpertsTensors& tensors,
                   Stream stream);

/// y: float, of f64 double. A warp per choice.
Status run_expert_products(const kernels::ExpertsShape& shape, const void* x,
                           const std::int32_t* places, const void* results, void* y, Stream stream);

}  // namespace alpa::cuda
