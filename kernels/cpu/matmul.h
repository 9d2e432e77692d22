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

/// Whether `multiply_rows` takes the product: few rows and a large b, as of single tokens. oneDNN
/// reads b at a half of memory's speed there.
bool suits_row_product(const kernels::MatmulShape& shape);
/// The product, whose columns the team shares.
void multiply_rows(const kernels::MatmulShape& shape, float* c, const float* a, const float* b,
                   ThreadTeam& team);

/// A row-major operand of `gemm`; `lead`: elements from row to row as it is stored.
template <class T>
struct Panel {
  const T* data = nullptr;
  std::int64_t lead = 1;
  bool transposed = false;
};
/// c [m, n] = alpha · a b + beta · c, with a [m, k] and b [k, n] after their transposition, in the
/// calling thread. Extents are at least 1.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Panel<float> a,
          Panel<float> b, float beta, float* c, std::int64_t c_lead);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Panel<double> a,
          Panel<double> b, double beta, double* c, std::int64_t c_lead);

/// The product in double, through Eigen.
void matmul_f64(const kernels::MatmulShape& shape, double* c, const double* a, const double* b,
                ThreadTeam& team);

}  // namespace alpa::cpu
