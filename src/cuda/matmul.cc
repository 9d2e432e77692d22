// src/cuda/matmul.cc — describes products to cuBLASLt, which is column-major,
// so operands are exchanged
#include "matmul.h"

#include <fmt/core.h>

#include <algorithm>

#include "status.h"

namespace alpa::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::f64: return CUDA_R_64F;
    default: bug("cuBLASLt has no products of {}", name_of(dtype));
  }
}

cublasComputeType_t compute_type(DType operands, bool tf32) {
  if (operands == f64) return CUBLAS_COMPUTE_64F;
  return operands == f32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// A matrix rows × columns with these strides as a column-major one: as it is, or transposed.
struct View {
  bool transposed;
  std::int64_t rows, columns, leading;
};
View view_of(std::int64_t rows, std::int64_t row_stride, std::int64_t columns,
             std::int64_t column_stride) {
  if (row_stride == 1 || (rows == 1 && column_stride != 1))
    return {false, rows, columns, std::max(column_stride, rows)};
  invariant(column_stride == 1 || columns == 1, "product: strides {} and {}", row_stride,
            column_stride);
  return {true, columns, rows, std::max(row_stride, columns)};
}

LtLayout layout_of(DType dtype, const View& view, const kernels::MatmulShape& shape,
                   std::int64_t stride) {
  cublasLtMatrixLayout_t created = nullptr;
  check(
      cublasLtMatrixLayoutCreate(&created, data_type(dtype), static_cast<std::uint64_t>(view.rows),
                                 static_cast<std::uint64_t>(view.columns), view.leading),
      "cublasLtMatrixLayoutCreate");
  LtLayout layout(created);
  if (shape.batch.empty()) return layout;
  const auto count = static_cast<std::int32_t>(shape.batch[0].extent);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check(cublasLtMatrixLayoutSetAttribute(created, attribute, &value, sizeof value),
          "cublasLtMatrixLayoutSetAttribute");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  return layout;
}

template <class T>
void set(const LtMatmul& matmul, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(matmul.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

/// cuBLASLt's A is our B.
cublasLtEpilogue_t epilogue_code(const Epilogue& epilogue) {
  if (epilogue.sums_of == 1) return CUBLASLT_EPILOGUE_BGRADA;
  if (epilogue.sums_of == 0) return CUBLASLT_EPILOGUE_BGRADB;
  const bool relu = epilogue.function == Epilogue::Function::relu;
  if (epilogue.gradient) return relu ? CUBLASLT_EPILOGUE_DRELU : CUBLASLT_EPILOGUE_DGELU;
  if (epilogue.function == Epilogue::Function::none)
    return epilogue.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (epilogue.keep && epilogue.bias)
    return relu ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  if (epilogue.keep) return relu ? CUBLASLT_EPILOGUE_RELU_AUX : CUBLASLT_EPILOGUE_GELU_AUX;
  if (epilogue.bias) return relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
  return relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_GELU;
}

void describe_epilogue(const LtMatmul& matmul, const MatmulProblem& shape) {
  const Epilogue& epilogue = shape.epilogue;
  set(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_code(epilogue));
  // Placeholders with the alignment of the real pointers, which are not known yet.
  void* const aligned = reinterpret_cast<void*>(static_cast<std::uintptr_t>(shape.alignment));
  if (epilogue.has_vector()) {
    set(matmul, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<std::int32_t>(data_type(shape.result)));
    set(matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned);
    set(matmul, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, shape.vector_stride);
  }
  if (epilogue.has_kept()) {
    set(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.matrices.n);
    if (!shape.matrices.batch.empty())
      set(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, shape.matrices.batch[0].c);
    set(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned);
  }
}

}  // namespace

std::string to_string(const MatmulProblem& shape) {
  const kernels::MatmulShape& s = shape.matrices;
  std::string text =
      fmt::format("{}x{}x{} {} {} a {},{} b {},{} c {}", s.m, s.n, s.k, name_of(shape.operands),
                  name_of(shape.result), s.a_m, s.a_k, s.b_k, s.b_n, s.c_m);
  for (const kernels::BatchDim& dim : s.batch)
    text += fmt::format(" batch {} {},{},{}", dim.extent, dim.a, dim.b, dim.c);
  if (shape.vector_stride > 0) text += fmt::format(" vectors {}", shape.vector_stride);
  text += fmt::format(" within {} at {}", shape.workspace_bytes, shape.alignment);
  return shape.epilogue == Epilogue{} ? text : text + " " + alpa::to_string(shape.epilogue);
}

Matmul::Matmul(cublasLtHandle_t lt, const MatmulProblem& shape, bool tf32)
    : lt_(lt), shape_(shape) {
  const kernels::MatmulShape& s = shape_.matrices;
  invariant(s.batch.size() <= 1, "product with {} batch dimensions", s.batch.size());
  cublasLtMatmulDesc_t created = nullptr;
  check(cublasLtMatmulDescCreate(&created, compute_type(shape.operands, tf32),
                                 shape.operands == f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  matmul_.reset(created);
  const View a = view_of(s.k, s.a_k, s.m, s.a_m), b = view_of(s.n, s.b_n, s.k, s.b_k);
  const auto operation = [](const View& view) {
    return view.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(matmul_, CUBLASLT_MATMUL_DESC_TRANSA, operation(b));
  set(matmul_, CUBLASLT_MATMUL_DESC_TRANSB, operation(a));
  const kernels::BatchDim strides = s.batch.empty() ? kernels::BatchDim{} : s.batch[0];
  a_ = layout_of(shape.operands, a, s, strides.a);
  b_ = layout_of(shape.operands, b, s, strides.b);
  c_ = layout_of(shape.result, {false, s.n, s.m, std::max(s.c_m, s.n)}, s, strides.c);
  describe_epilogue(matmul_, shape_);
}

void Matmul::run(const MatmulBuffers& buffers, void* workspace, Stream stream) const {
  run(algorithm_, buffers, workspace, stream);
}

void Matmul::run(const cublasLtMatmulAlgo_t& algorithm, const MatmulBuffers& buffers,
                 void* workspace, Stream stream) const {
  if (shape_.epilogue.has_vector()) set(matmul_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, buffers.vector);
  if (shape_.epilogue.has_kept())
    set(matmul_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, buffers.kept);
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const bool wide = shape_.operands == f64, adds = shape_.epilogue.add;
  const void *const number_one = wide ? static_cast<const void*>(&wide_one) : &one,
                    *const number_zero = wide ? static_cast<const void*>(&wide_zero) : &zero;
  const cublasStatus_t status = cublasLtMatmul(
      lt_, matmul_.get(), number_one, buffers.b, b_.get(), buffers.a, a_.get(),
      adds ? number_one : number_zero, adds ? buffers.addend : buffers.c, c_.get(), buffers.c,
      c_.get(), &algorithm, workspace, static_cast<std::size_t>(shape_.workspace_bytes), stream);
  if (status != CUBLAS_STATUS_SUCCESS)
    check(status, fmt::format("cublasLtMatmul({})", to_string(shape_)).c_str());
}

}  // namespace alpa::cuda
