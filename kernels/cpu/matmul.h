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

/// The product in double, through Eigen.
void matmul_f64(const kernels::MatmulShape& shape, double* c, const double* a, const double* b,
                ThreadTeam& team);

}  // namespace alpa::cpu
