// Which products cuBLASLt takes
#include <set>

#include "matmul.h"
#include "world.h"

namespace alpa::emulation {
namespace {

constexpr unsigned kHasVector = 4 | 16 | 256 | 512, kHasKept = 128;
/// Of vectors and kept matrices: what users of cuBLASLt found their epilogues to need.
constexpr std::size_t kEpilogueAlignment = 16;

bool is_element(std::int32_t type) {
  return type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

std::size_t bytes_of(std::int32_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

bool is_valid(const Layout& x) {
  const bool by_row = x.order == CUBLASLT_ORDER_ROW;
  return is_element(x.type) && (by_row || x.order == CUBLASLT_ORDER_COL) && x.rows > 0 &&
         x.cols > 0 && x.ld >= static_cast<std::int64_t>(by_row ? x.cols : x.rows) && x.batch > 0;
}

/// Bytes from the first to the last element.
std::size_t extent(const Layout& x) {
  const auto lines = x.order == CUBLASLT_ORDER_ROW ? x.rows : x.cols;
  const auto length = x.order == CUBLASLT_ORDER_ROW ? x.cols : x.rows;
  return (static_cast<std::uint64_t>(x.batch - 1) * static_cast<std::uint64_t>(x.stride) +
          (lines - 1) * static_cast<std::uint64_t>(x.ld) + length) *
         bytes_of(x.type);
}

bool types_are_supported(const Product& p) {
  const std::int32_t in = p.a.type, out = p.d.type, compute = p.description.compute;
  if (p.b.type != in || p.c.type != out) return false;
  if (compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC)
    return in == CUDA_R_64F && out == CUDA_R_64F && p.description.scale == CUDA_R_64F;
  const bool f32 = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC;
  const bool fast = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                    compute == CUBLAS_COMPUTE_32F_FAST_16BF ||
                    compute == CUBLAS_COMPUTE_32F_FAST_16F;
  if (p.description.scale != CUDA_R_32F || in == CUDA_R_64F) return false;
  if (in == CUDA_R_32F) return (f32 || fast) && out == CUDA_R_32F;
  return f32 && (out == in || out == CUDA_R_32F);
}

bool is_epilogue(unsigned epilogue) {
  static const std::set<unsigned> known = {
      CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
      CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
      CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
      CUBLASLT_EPILOGUE_BGRADB};
  return known.contains(epilogue);
}

cublasStatus_t check_epilogue(const Product& p) {
  const auto& d = p.description;
  if (!is_epilogue(d.epilogue)) return CUBLAS_STATUS_INVALID_VALUE;
  if (d.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  if (p.a.type == CUDA_R_64F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.bias_type != -1 && d.bias_type != p.d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!p.has(kHasKept)) return CUBLAS_STATUS_SUCCESS;
  const bool mask = (d.epilogue & (2 | 8)) != 0;
  if (p.d.order == CUBLASLT_ORDER_ROW) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!mask && d.aux_type != -1 && d.aux_type != p.d.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::int64_t multiple = mask ? 128 : 8;
  if (d.aux_ld < p.m() || d.aux_ld % multiple != 0 || d.aux_stride % multiple != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

bool is_multiple(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

bool is_accessible(const void* data, std::size_t bytes) {
  return allocation_of(data, bytes) != nullptr;
}

bool is_epilogue_addressable(const Product& p) {
  const auto& d = p.description;
  const auto batches = static_cast<std::size_t>(p.d.batch - 1);
  const auto m = static_cast<std::size_t>(p.m()), n = static_cast<std::size_t>(p.n());
  if ((d.epilogue & kHasVector) != 0) {
    const std::size_t length = d.epilogue == CUBLASLT_EPILOGUE_BGRADB ? n : m;
    if (!is_accessible(d.bias, (batches * static_cast<std::size_t>(d.bias_stride) + length) *
                                   bytes_of(p.d.type)))
      return false;
  }
  if (!p.has(kHasKept)) return true;
  const std::size_t elements = batches * static_cast<std::size_t>(d.aux_stride) +
                               (n - 1) * static_cast<std::size_t>(d.aux_ld) + m;
  return is_accessible(
      d.aux, (d.epilogue & (2 | 8)) != 0 ? (elements + 7) / 8 : elements * bytes_of(p.d.type));
}

}  // namespace

cublasStatus_t check(const Product& p) {
  const auto& d = p.description;
  for (const Layout* x : {&p.a, &p.b, &p.c, &p.d})
    if (!is_valid(*x) || x->batch != p.d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  for (const std::int32_t op : {d.trans_a, d.trans_b})
    if (op < CUBLAS_OP_N || op > CUBLAS_OP_C) return CUBLAS_STATUS_INVALID_VALUE;
  const auto rows = [](const Layout& x, std::int32_t op) {
    return op == CUBLAS_OP_N ? x.rows : x.cols;
  };
  const auto cols = [](const Layout& x, std::int32_t op) {
    return op == CUBLAS_OP_N ? x.cols : x.rows;
  };
  if (rows(p.a, d.trans_a) != p.d.rows || cols(p.b, d.trans_b) != p.d.cols ||
      cols(p.a, d.trans_a) != rows(p.b, d.trans_b) || p.c.rows != p.d.rows || p.c.cols != p.d.cols)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (d.trans_c != CUBLAS_OP_N || p.c.order != p.d.order || !types_are_supported(p))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return check_epilogue(p);
}

bool is_aligned(const Product& p, std::size_t bytes) {
  const auto fits = [&](const Layout& x, const void* data) {
    const auto stride = [&](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * bytes_of(x.type) % bytes == 0;
    };
    return is_multiple(data, bytes) && stride(x.ld) && (x.batch == 1 || stride(x.stride));
  };
  return fits(p.a, p.a_data) && fits(p.b, p.b_data) && fits(p.c, p.c_data) && fits(p.d, p.d_data);
}

cublasStatus_t check_pointers(const Product& p) {
  const auto& d = p.description;
  const auto fits = [](const void* data, std::size_t bytes) {
    return data != nullptr && is_multiple(data, bytes);
  };
  if (!fits(p.a_data, bytes_of(p.a.type)) || !fits(p.b_data, bytes_of(p.b.type)) ||
      !fits(p.d_data, bytes_of(p.d.type)) || !is_multiple(p.c_data, bytes_of(p.c.type)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if ((d.epilogue & kHasVector) != 0 && !fits(d.bias, kEpilogueAlignment))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (p.has(kHasKept) && !fits(d.aux, kEpilogueAlignment)) return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

bool is_addressable(const Product& p) {
  return is_accessible(p.a_data, extent(p.a)) && is_accessible(p.b_data, extent(p.b)) &&
         is_accessible(p.d_data, extent(p.d)) &&
         (p.c_data == nullptr || p.beta == 0 || is_accessible(p.c_data, extent(p.c))) &&
         is_epilogue_addressable(p);
}

}  // namespace alpa::emulation
