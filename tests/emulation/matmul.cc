#include "matmul.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "library_data.h"

namespace alpa::emulation {
namespace {

std::int64_t place(const Layout& x, std::int64_t batch, std::int64_t row, std::int64_t col) {
  return batch * x.stride + (x.order == CUBLASLT_ORDER_ROW ? row * x.ld + col : col * x.ld + row);
}

float rounded(float x, std::int32_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_32F_FAST_TF32: return round_to_tf32(x);
    case CUBLAS_COMPUTE_32F_FAST_16BF: return to_float(to_bf16(x));
    case CUBLAS_COMPUTE_32F_FAST_16F: return to_float(to_f16(x));
    default: return x;
  }
}

/// op(x) of one batch, row-major, as the product multiplies it.
template <class S>
std::vector<S> gathered(const Product& p, const Layout& x, const void* data, std::int32_t op,
                        std::int64_t batch) {
  const auto rows = static_cast<std::int64_t>(x.rows), cols = static_cast<std::int64_t>(x.cols);
  std::vector<S> result(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) {
      S value = static_cast<S>(read(data, x.type, place(x, batch, i, j)));
      if constexpr (sizeof(S) == 4) value = rounded(value, p.description.compute);
      result[static_cast<std::size_t>(op == CUBLAS_OP_N ? i * cols + j : j * rows + i)] = value;
    }
  return result;
}

/// result[i, :] += Σ a[i, l]·b[l, :] for l of [begin, end), in that order.
template <class S>
void multiply(S* result, const S* a, const S* b, std::int64_t begin, std::int64_t end,
              std::int64_t k, std::int64_t m, std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = begin; l < end; ++l) {
      const S factor = a[i * k + l];
      const S* const row = b + l * n;
      S* const out = result + i * n;
      for (std::int64_t j = 0; j < n; ++j) out[j] += factor * row[j];
    }
}

template <class S>
std::vector<S> product(const Product& p, const std::vector<S>& a, const std::vector<S>& b) {
  const std::int64_t m = p.m(), n = p.n(), k = p.k();
  const auto size = static_cast<std::size_t>(m * n);
  std::vector<S> sum(size, S(0)), part;
  for (int split = 0; split < p.splits; ++split) {
    part.assign(size, S(0));
    multiply(part.data(), a.data(), b.data(), k * split / p.splits, k * (split + 1) / p.splits, k,
             m, n);
    for (std::size_t i = 0; i < size; ++i) sum[i] += part[i];
  }
  return sum;
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double root = std::sqrt(2 / M_PI), t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

/// The bits of ReLU's mask, eight a byte from the lowest on.
bool mask_bit(const Product& p, std::int64_t at) {
  return (static_cast<const unsigned char*>(p.description.aux)[at / 8] >> (at % 8) & 1) != 0;
}
void set_mask_bit(const Product& p, std::int64_t at, bool bit) {
  unsigned char& byte = static_cast<unsigned char*>(p.description.aux)[at / 8];
  const auto mask = static_cast<unsigned char>(1u << (at % 8));
  byte = static_cast<unsigned char>(bit ? byte | mask : byte & ~mask);
}

/// Element (i, j) of a batch after the epilogue.
double finished(const Product& p, std::int64_t batch, std::int64_t i, std::int64_t j, double x) {
  const auto& d = p.description;
  const unsigned epilogue = d.epilogue;
  const std::int64_t aux = batch * d.aux_stride + j * d.aux_ld + i;
  if ((epilogue & 4) != 0) x += read(d.bias, p.d.type, batch * d.bias_stride + i);
  if ((epilogue & 2) != 0) {
    if (p.has(128)) set_mask_bit(p, aux, x > 0);
    return x > 0 ? x : 0;  // a NaN becomes 0
  }
  if ((epilogue & 32) != 0) {
    if (p.has(128)) write(d.aux, p.d.type, aux, x);
    return gelu(x);
  }
  if ((epilogue & 8) != 0) return mask_bit(p, aux) ? x : 0;
  if ((epilogue & 64) != 0) return x * gelu_slope(read(d.aux, p.d.type, aux));
  return x;
}

/// Sums of `count` lines of `length` elements into the bias vector.
template <class S>
void sum_lines(const Product& p, std::int64_t batch, const S* x, std::int64_t count,
               std::int64_t length, std::int64_t line_stride, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < length; ++j) sum += x[i * line_stride + j * stride];
    write(p.description.bias, p.d.type, batch * p.description.bias_stride + i, sum);
  }
}

template <class S>
void compute_batch(const Product& p, std::int64_t batch, double alpha, double beta) {
  const std::int64_t m = p.m(), n = p.n(), k = p.k();
  const std::vector<S> a = gathered<S>(p, p.a, p.a_data, p.description.trans_a, batch);
  const std::vector<S> b = gathered<S>(p, p.b, p.b_data, p.description.trans_b, batch);
  std::vector<S> result = product(p, a, b);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      S& element = result[static_cast<std::size_t>(i * n + j)];
      double x = alpha * element;
      if (beta != 0) x += beta * read(p.c_data, p.c.type, place(p.c, batch, i, j));
      x = finished(p, batch, i, j, static_cast<S>(x));
      element = static_cast<S>(x);
      write(p.d_data, p.d.type, place(p.d, batch, i, j), x);
    }
  if (p.has(16)) sum_lines(p, batch, result.data(), m, n, n, 1);
  if (p.has(256)) sum_lines(p, batch, a.data(), m, k, k, 1);
  if (p.has(512)) sum_lines(p, batch, b.data(), n, k, 1, n);
}

}  // namespace

void compute(const Product& p) {
  const double alpha =
      p.device_alpha == nullptr ? p.alpha : read(p.device_alpha, p.description.scale, 0);
  const double beta =
      p.device_beta == nullptr ? p.beta : read(p.device_beta, p.description.scale, 0);
  for (std::int64_t batch = 0; batch < p.d.batch; ++batch)
    p.a.type == CUDA_R_64F ? compute_batch<double>(p, batch, alpha, beta)
                           : compute_batch<float>(p, batch, alpha, beta);
}

}  // namespace alpa::emulation
