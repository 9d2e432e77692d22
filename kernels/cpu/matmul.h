#pragma once
/// Batched matrix products on the CPU.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "alpa/base/dtype.h"
#include "kernels/plan/matmul_shape.h"

namespace alpa {
class ThreadTeam;
}

namespace alpa::cpu {

/// Element types of A and B, and of C.
struct ProductTypes {
  DType operands = f32, result = f32;
};

/// Whether the processor multiplies matrices of this type in units of its own, which add in f32:
/// bf16 with AMX.
bool has_matrix_unit(DType operands);

/// oneDNN's products, prepared for a team of `threads`. The library itself runs every call in one
/// thread. Operands are f32, or have a matrix unit; the result is of their type, or f32.
class DnnlMatmul {
 public:
  DnnlMatmul(const kernels::MatmulShape& shape, ProductTypes types, int threads);
  ~DnnlMatmul();
  DnnlMatmul(const DnnlMatmul&) = delete;
  DnnlMatmul& operator=(const DnnlMatmul&) = delete;

  /// False where the matrix unit can't multiply such operands. Those of f32 are always usable.
  bool usable() const;
  std::int64_t workspace_bytes() const;
  void run(std::byte* c, const std::byte* a, const std::byte* b, std::byte* workspace,
           ThreadTeam& team) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether `multiply_rows` takes the product: few rows and a large b, as of single tokens. oneDNN
/// reads b at a half of memory's speed there.
bool suits_row_product(const kernels::MatmulShape& shape);
/// Their b: elements of f32, bf16 or f16 as they are stored.
struct RowProductSide {
  const void* data;
  DType type;
};
/// The product, whose columns the team shares; added in f32.
void multiply_rows(const kernels::MatmulShape& shape, float* c, const float* a, RowProductSide b,
                   ThreadTeam& team);

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
