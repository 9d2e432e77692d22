#pragma once
/// Rows of a table by id, and the sums of rows with one id: contracts of `cpu::embedding` and
/// `cpu::embedding_grad`, except for ids outside the table. A kernel cannot throw: their rows are
/// NaN, so that the loss shows them, and the gradient ignores them.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// The part of a table that a device holds, and how many ids there are.
struct EmbeddingLaunch {
  DType dtype = DType::f32;  ///< floating
  std::int64_t ids = 0, width = 0;
  std::int64_t all_rows = 0, first_row = 0, held_rows = 0;
};

inline constexpr std::int64_t kMaxIds = 0xffffffff;  ///< that the gradient takes

/// y = rows of the table by id; zeros for rows that other devices hold.
Status run_embedding(const EmbeddingLaunch& launch, const void* table, const std::int32_t* ids,
                     void* y, Stream stream);

/// dtable = sums of the rows of dy by id, each carried in double in the order of the ids. The ids
/// are sorted by merging (log2(ids / 512) short kernels), so no order depends on timing; then a
/// warp adds up each row's share of 32 packs of columns.
Status run_embedding_grad(const EmbeddingLaunch& launch, const void* dy, const std::int32_t* ids,
                          void* dtable, void* workspace, Stream stream);

/// Scratch of `run_embedding_grad`: two sequences of sorted ids.
constexpr std::int64_t embedding_grad_bytes(std::int64_t ids) {
  return 2 * ids * static_cast<std::int64_t>(sizeof(std::uint64_t));
}

}  // namespace alpa::cuda
