#pragma once
/// Attention through cuDNN, planned from types alone, so that scratch memory is known without a
/// card.
#include <string>

#include "kernels/plan/attention_shape.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

/// A call of attention or attention_grad.
struct AttentionLaunch {
  kernels::AttentionShape shape;
  bool is_gradient = false;
  bool has_mask = false, has_segments = false;
};
AttentionLaunch attention_launch(const KernelCall& call);

/// Why cuDNN is not asked for it, "" if it is: bf16 and f16, no mask, segments, window, soft cap or
/// dropout, heads of a multiple of 8 elements up to 128, and queries that see all keys, or keys up
/// to a diagonal that starts at the first or ends at the last key. The gradient of a key head has
/// to fit into 2 GiB of workspace, and to be of more than one query and one key.
std::string dnn_refusal(const AttentionLaunch& launch);
/// Whether there is no refusal, and something to compute.
bool suits_dnn(const AttentionLaunch& launch);

/// What one call of cuDNN computes. The gradient needs workspace for the probabilities of all its
/// heads, so a launch is cut: rows of the batch first, then heads, in equal pieces.
struct AttentionPiece {
  kernels::AttentionShape shape;  ///< `batch`, `heads` and `key_heads` are the piece's
  bool is_gradient = false;
  std::int64_t row_heads = 1, row_key_heads = 1;  ///< of the whole tensors: their strides
};
/// Throws Bug unless `suits_dnn`.
AttentionPiece attention_piece(const AttentionLaunch& launch);

/// "attention bf16 q 8,1024,16,64 of 16 k 1024,16 of 16 causal from the first key": equal texts
/// mean equal problems.
std::string to_string(const AttentionPiece& piece);

/// Scratch memory of a launch, whichever kernel runs: Σ dy·y of every query, of the gradient, and
/// behind it, for one piece, dq in f32 unless it repeats, and cuDNN's workspace.
struct AttentionScratch {
  std::int64_t sums = 0, workspace = 0;  ///< offsets behind the first multiple of 256
  std::int64_t workspace_bytes = 0;      ///< of cuDNN, at most
  std::int64_t bytes = 0;                ///< all
};
AttentionScratch attention_scratch(const AttentionLaunch& launch);

}  // namespace alpa::cuda
