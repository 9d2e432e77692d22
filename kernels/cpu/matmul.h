#pragma once
/// Batched matrix products on the CPU.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/plan/matmul_shape.h"

namespace alpa {
class ThreadTeam;
}

namespace alpa::cpu {

/// oneDNN's product in f32, prepared for a team of `threads`. The library itself runs
/// every call in one thread.
class DnnlMatmul {
 public:
  DnnlMatmul(const kernels::MatmulShape& shape, int threads);
  ~DnnlMatmul();
  DnnlMatmul(const DnnlMatmul&) = delete;
  DnnlMatmul& operator=(const DnnlMatmul&) = delete;

  std::int64_t workspace_bytes() const;
  void run(float* c, const float* a, const float* b, std::byte* workspace, ThreadTeam& team) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A row-major operand of `gemm`; `lead`: elements from row to row as it is stored.
template <class T>
struct Panel {
  const T* data = nullptr;
  std::int64_t lead = 1;
  bool transposed = false;
};
/// c [m, n] = a b, or with `add` c + a b, with a [m, k] and b [k, n] after their transposition, in
/// the calling thread. Extents are at least 1. With `fixed` floats are summed as by
/// `ordered_product`.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Panel<float> a, Panel<float> b, bool add,
          float* c, std::int64_t c_lead, bool fixed);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Panel<double> a, Panel<double> b,
          bool add, double* c, std::int64_t c_lead, bool fixed);

/// A matrix in memory; strides in elements.
struct Matrix {
  const float* data = nullptr;
  std::int64_t row = 0, column = 1;
};

/// c [m, n] = a b, or with `add` c + a b, in the calling thread: sums over ascending k in each of
/// `chunks` equal parts, a power of two, and these along a balanced tree. The bits of a result
/// depend on its row, its column and `chunks` alone. Extents are at least 1.
void ordered_product(std::int64_t m, std::int64_t n, std::int64_t k, int chunks, Matrix a, Matrix b,
                     bool add, float* c, std::int64_t c_lead);

/// The same of a batch, on all threads of the team.
void ordered_matmul(const kernels::MatmulShape& shape, int chunks, float* c, const float* a,
                    const float* b, ThreadTeam& team);

/// The product in double, through Eigen.
void matmul_f64(const kernels::MatmulShape& shape, double* c, const double* a, const double* b,
                ThreadTeam& team);

}  // namespace alpa::cpu
