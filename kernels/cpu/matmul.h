#pragma once
/// Batched matrix products on strided views: C[batch, m, n] = Σ_k A[batch, m, k] B[batch, k, n].
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace alpa {
class ThreadTeam;
}

namespace alpa::cpu {

/// One batch dimension: extent and strides in elements.
struct BatchDim {
  std::int64_t extent = 1;
  std::int64_t a = 0, b = 0, c = 0;
};

/// Shapes and strides in elements. Of each matrix at least one stride is 1 (or its extent is 1); C's is
/// that of n.
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

/// oneDNN's product in f32, prepared for a team of `threads`. The library itself runs every call in one
/// thread.
class DnnlMatmul {
 public:
  DnnlMatmul(const MatmulShape& shape, int threads);
  ~DnnlMatmul();
  DnnlMatmul(const DnnlMatmul&) = delete;
  DnnlMatmul& operator=(const DnnlMatmul&) = delete;

  std::int64_t workspace_bytes() const;
  void run(float* c, const float* a, const float* b, std::byte* workspace, ThreadTeam& team) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The product in double, through Eigen.
void matmul_f64(const MatmulShape& shape, double* c, const double* a, const double* b, ThreadTeam& team);

}  // namespace alpa::cpu
