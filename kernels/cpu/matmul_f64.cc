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
  team.for_each(shape.batches() * panels, 1, [&](std::int64_t i) {
    const kernels::BatchOffsets at = kernels::batch_offsets(shape.batch, i / panels);
    const std::int64_t row = i % panels * kPanel, rows = std::min(kPanel, shape.m - row);
    const Eigen::Map<const Matrix, 0, Strides> left(a + at.a + row * shape.a_m, rows, shape.k,
                                                    Strides(shape.a_m, shape.a_k));
    const Eigen::Map<const Matrix, 0, Strides> right(b + at.b, shape.k, shape.n,
                                                     Strides(shape.b_k, shape.b_n));
    Eigen::Map<Matrix, 0, Strides>(c + at.c + row * shape.c_m, rows, shape.n, Strides(shape.c_m, 1))
        .noalias() = left * right;
  });
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Panel<double> a, Panel<double> b,
          bool add, double* c, std::int64_t c_lead, bool /*fixed*/) {
  using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto map = [](const Panel<double>& p, std::int64_t rows, std::int64_t columns) {
    return Eigen::Map<const Matrix, 0, Strides>(
        p.data, rows, columns, p.transposed ? Strides(1, p.lead) : Strides(p.lead, 1));
  };
  Eigen::Map<Matrix, 0, Strides> result(c, m, n, Strides(c_lead, 1));
  if (add)
    result += map(a, m, k) * map(b, k, n);
  else
    result.noalias() = map(a, m, k) * map(b, k, n);
}

}  // namespace alpa::cpu
