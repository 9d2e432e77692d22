#pragma once
/// Kernels along one dimension of a tensor: lookups, cumulative sums, and the first elements in
/// order. Contracts of the CPU's kernels, except for ids outside the dimension: a kernel cannot
/// throw, so they give NaN, and the gradient ignores them.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// A tensor seen as outer × extent × inner elements.
struct Lines {
  DType dtype = DType::f32;
  std::int64_t outer = 1, extent = 1, inner = 1;
};

/// The elements along the dimension that a device holds, of `all`.
struct HeldPart {
  std::int64_t all = 0, first = 0, held = 0;
};

/// y of `lines` = x's elements by id; 0 for those that other devices hold. Floating.
Status run_take(const Lines& lines, const HeldPart& part, const void* x, const std::int32_t* ids,
                void* y, Stream stream);

/// dx = dy's elements (dy of `lines`) summed by id in their order, carried in double. Floating.
/// Every element of dx looks at all ids of its line.
Status run_take_grad(const Lines& lines, const HeldPart& part, const void* dy,
                     const std::int32_t* ids, void* dx, Stream stream);

/// Cumulative sums, carried in double: a block per line, each thread a contiguous piece of it.
Status run_cumulative_sum(const Lines& lines, bool exclusive, bool reverse, const void* x, void* y,
                          Stream stream);

/// Index of the first element of every line in descending order: a block per line.
Status run_argmax(const Lines& lines, const void* x, std::int32_t* y, Stream stream);

/// The first k elements of every line (inner 1) in order, a block per line. Few are found one
/// after the other; of many, every element counts those before it.
Status run_top_k(const Lines& lines, std::int64_t k, bool descending, const void* x, void* values,
                 std::int32_t* indices, Stream stream);

}  // namespace alpa::cuda
