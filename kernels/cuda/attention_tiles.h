#pragma once
/// Attention of 16-bit types on tensor cores, in tiles of queries and keys that stay in shared
/// memory and registers (Dao 2023, FlashAttention-2): the contracts of attention.h. dq is one
/// kernel, dk and dv another, so each result is added up by one warp in a fixed order.
#include "kernels/cuda/attention.h"

namespace alpa::cuda {

/// Whether the kernels take heads of this type and width.
constexpr bool suits_tiles(const kernels::AttentionShape& shape) {
  return (shape.dtype == DType::bf16 || shape.dtype == DType::f16) && shape.width <= 128;
}

Status run_attention_tiles(const kernels::AttentionShape& shape, const AttentionTensors& tensors,
                           const StepNumbers* step, Stream stream);
/// `tensors.delta` holds Σ dy·y of every query already.
Status run_attention_grad_tiles(const kernels::AttentionShape& shape,
                                const AttentionGradTensors& tensors, const StepNumbers* step,
                                Stream stream);

}  // namespace alpa::cuda
