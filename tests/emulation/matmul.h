#pragma once
/// One matrix product of cuBLASLt: what its descriptors hold, whether it is
/// supported, and its computation.
#include "cublasLt.h"

struct cublasLtMatrixLayoutOpaque_t {
  std::int32_t type, order = CUBLASLT_ORDER_COL;
  std::uint64_t rows, cols;
  std::int64_t ld;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};

struct cublasLtMatmulDescOpaque_t {
  std::int32_t compute, scale, pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N, trans_c = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  std::int64_t bias_stride = 0, aux_ld = 0, aux_stride = 0;
  std::int32_t sm_count = 0, aux_type = -1, bias_type = -1;
};

namespace alpa::emulation {

using Layout = cublasLtMatrixLayoutOpaque_t;

/// D = epilogue(alpha·op(A)·op(B) + beta·C).
struct Product {
  cublasLtMatmulDescOpaque_t description;
  Layout a, b, c, d;
  const void *a_data = nullptr, *b_data = nullptr, *c_data = nullptr;
  void* d_data = nullptr;
  double alpha = 1, beta = 0;                                  ///< in host pointer mode
  const void *device_alpha = nullptr, *device_beta = nullptr;  ///< in device pointer mode
  int splits = 1;  ///< of k, added up one after the other: algorithms differ in their rounding

  std::int64_t m() const { return static_cast<std::int64_t>(d.rows); }
  std::int64_t n() const { return static_cast<std::int64_t>(d.cols); }
  std::int64_t k() const {
    return static_cast<std::int64_t>(description.trans_a == CUBLAS_OP_N ? a.cols : a.rows);
  }
  bool has(unsigned epilogue) const { return (description.epilogue & epilogue) == epilogue; }
};

/// SUCCESS, INVALID_VALUE (descriptors that contradict each other) or NOT_SUPPORTED.
cublasStatus_t check(const Product& product);

/// Whether an algorithm that needs matrices aligned to so many bytes can take it: pointers, where
/// they are known, leading dimensions and strides.
bool is_aligned(const Product& product, std::size_t bytes);

/// SUCCESS, or INVALID_VALUE for pointers that are absent or aligned less than elements, vectors
/// and kept matrices must be.
cublasStatus_t check_pointers(const Product& product);

/// Whether all that it reads and writes is device or pinned memory. With the world's mutex held.
bool is_addressable(const Product& product);

void compute(const Product& product);

}  // namespace alpa::emulation
