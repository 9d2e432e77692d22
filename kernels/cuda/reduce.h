#pragma once
/// Reductions over dimensions: contracts of `cpu::reduce`. The input is kept × reduced × inner,
/// inner being contiguous and either reduced (lines) or kept (columns). Sums are carried in double
/// and put together in an order that shapes and alignment alone determine; two passes when the
/// results are few. Of bf16 and f16, 4 or 8 elements at a time are added in f32 first: a sum is
/// within 3·2⁻²⁴·Σ|x| of the exact one, before it is rounded to its type, however many elements
/// there are. (Where eight neighbours exceed f32's range, it is infinite.)
#include "kernels/cuda/launch.h"
#include "kernels/reduction.h"

namespace alpa::cuda {

struct ReduceLaunch {
  ReduceOp op = ReduceOp::sum;
  DType from = DType::f32, to = DType::f32;
  Walk kept, reduced;  ///< the dimensions but inner
  std::int64_t kept_count = 1, reduced_count = 1, inner = 1;
  bool inner_reduced = true;
  std::int64_t pieces = 1;     ///< of every result
  std::int64_t per_piece = 1;  ///< elements of a line, or rows, in a piece
  std::int64_t results = 0;
  bool empty = false;  ///< nothing to reduce: the results become what no element gives
};

/// How to reduce a dense tensor of `extent`, `rank` numbers, over the dimensions where
/// `reduce` is true. Returns false if more than kMaxDims dimensions remain after merging
/// neighbours that are treated alike.
bool plan_reduce(ReduceLaunch& launch, ReduceOp op, DType from, DType to, int rank,
                 const std::int64_t* extent, const bool* reduce);

/// Scratch that the launch needs, 16-byte aligned.
std::int64_t reduce_workspace_bytes(const ReduceLaunch& launch);

Status run_reduce(const ReduceLaunch& launch, const void* x, void* y, void* workspace,
                  Stream stream);

}  // namespace alpa::cuda
