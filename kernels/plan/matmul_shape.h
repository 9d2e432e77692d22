#pragma once
/// Shapes of batched matrix products on strided views: C[batch, m, n] = Σ_k
/// A[batch, m, k] B[batch, k, n].
#include <cstdint>
#include <vector>

namespace alpa::kernels {

/// One batch dimension: extent and strides in elements.
struct BatchDim {
  std::int64_t extent = 1;
  std::int64_t a = 0, b = 0, c = 0;
};

/// Shapes and strides in elements. Of each matrix at least one stride is 1 (or its
/// extent is 1); C's is that of n.
struct MatmulShape {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0;
  std::vector<BatchDim> batch;  ///< outermost first

  std::int64_t batches() const;
};

/// Offsets in elements of matrix number `index` of the batch.
struct BatchOffsets {
  std::int64_t a = 0, b = 0, c = 0;
};
BatchOffsets batch_offsets(const std::vector<BatchDim>& batch, std::int64_t index);

}  // namespace alpa::kernels
