// kernels/cpu/matmul_f64.cc — matrix products in double, by Eigen
#include <Eigen/Core>
#include <algorithm>

#include "kernels/cpu/matmul.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {

void matmul_f64(const kernels::MatmulShape& shape, double* c, const double* a, const double* b,
                ThreadTeam& team) {
  using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr std::int64_t kPanel =
      64;  // rows per task, fixed: results must not depend on the number of threads
  const std::int64_t panels = (shape.m + kPanel - 1) / kPanel;
  team.parallel_for(shape.batches() * panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const kernels::BatchOffsets at = kernels::batch_offsets(shape.batch, i / panels);
      const std::int64_t row = i % panels * kPanel, rows = std::min(kPanel, shape.m - row);
      const Eigen::Map<const Matrix, 0, Strides> left(a + at.a + row * shape.a_m, rows, shape.k,
                                                      Strides(shape.a_m, shape.a_k));
      const Eigen::Map<const Matrix, 0, Strides> right(b + at.b, shape.k, shape.n,
                                                       Strides(shape.b_k, shape.b_n));
      Eigen::Map<Matrix, 0, Strides>(c + at.c + row * shape.c_m, rows, shape.n,
                                     Strides(shape.c_m, 1))
          .noalias() = left * right;
    }
  });
}

}  // namespace alpa::cpu
