// kernels/cpu/layer_norm_loops.isa.cc — inner loops of layer normalisation, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

template <class T>
double squares_from(const T* x, double mean, std::int64_t n) {
  constexpr int kWays = 4;
  F64 sums[kWays] = {F64(0), F64(0), F64(0), F64(0)};
  std::int64_t i = 0;
  for (; i + kWays * kLanes64 <= n; i += kWays * kLanes64)
    for (int way = 0; way < kWays; ++way) {
      const F64 d = load_wide(x + i + way * kLanes64) - F64(mean);
      sums[way] = sums[way] + d * d;
    }
  double rest = 0;
  for (; i < n; ++i) rest += (x[i] - mean) * (x[i] - mean);
  return total((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

template <class V, class T = typename V::Scalar>
void normalize(T* y, const T* x, const T* scale, const T* bias, T mean, T rstd, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) {
    const V normal = (V::load(x + i) - V(mean)) * V(rstd);
    (normal * V::load(scale + i) + V::load(bias + i)).store(y + i);
  }
  for (; i < n; ++i) y[i] = (x[i] - mean) * rstd * scale[i] + bias[i];
}

template <class T>
void dots(double* sums, const T* dy, const T* x, const T* scale, double mean, double rstd,
          std::int64_t n) {
  F64 first(0), second(0);
  std::int64_t i = 0;
  for (; i + kLanes64 <= n; i += kLanes64) {
    const F64 g = load_wide(dy + i) * load_wide(scale + i);
    first = first + g;
    second = second + g * ((load_wide(x + i) - F64(mean)) * F64(rstd));
  }
  sums[0] += total(first);
  sums[1] += total(second);
  for (; i < n; ++i) {
    const double g = static_cast<double>(dy[i]) * scale[i];
    sums[0] += g;
    sums[1] += g * ((x[i] - mean) * rstd);
  }
}

template <class V, class T = typename V::Scalar>
void gradient(T* dx, const T* dy, const T* x, const T* scale, T mean, T rstd, const double* means,
              std::int64_t n) {
  const T first = static_cast<T>(means[0]), second = static_cast<T>(means[1]);
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) {
    const V normal = (V::load(x + i) - V(mean)) * V(rstd);
    ((V::load(dy + i) * V::load(scale + i) - V(first) - normal * V(second)) * V(rstd))
        .store(dx + i);
  }
  for (; i < n; ++i) dx[i] = (dy[i] * scale[i] - first - (x[i] - mean) * rstd * second) * rstd;
}

template <class T>
void add_columns(double* dscale, double* dbias, const T* dy, const T* x, double mean, double rstd,
                 std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes64 <= n; i += kLanes64) {
    const F64 g = load_wide(dy + i), normal = (load_wide(x + i) - F64(mean)) * F64(rstd);
    (F64::load(dscale + i) + g * normal).store(dscale + i);
    (F64::load(dbias + i) + g).store(dbias + i);
  }
  for (; i < n; ++i) {
    dscale[i] += dy[i] * ((x[i] - mean) * rstd);
    dbias[i] += dy[i];
  }
}

/// The sums of neighbouring columns, vectors 0, 1, …, stay in registers.
template <int... vectors, class T>
void add_rows_of(double* products, double* sums, const T* x, const T* y, std::int64_t rows,
                 std::int64_t stride) {
  F64 of_x[] = {F64::load(sums + vectors * kLanes64)...},
      of_products[] = {F64::load(products + vectors * kLanes64)...};
  const auto add = [&](int v) {
    const F64 wide = load_wide(x + v * kLanes64);
    of_x[v] = of_x[v] + wide;
    of_products[v] = of_products[v] + wide * load_wide(y + v * kLanes64);
  };
  for (std::int64_t r = 0; r < rows; ++r, x += stride, y += stride) (add(vectors), ...);
  (of_x[vectors].store(sums + vectors * kLanes64), ...);
  (of_products[vectors].store(products + vectors * kLanes64), ...);
}

template <class T>
void add_rows(double* products, double* sums, const T* x, const T* y, std::int64_t rows,
              std::int64_t n) {
  std::int64_t i = 0;
  if constexpr (kLanes64 >= 8)  // has the registers
    for (; i + 8 * kLanes64 <= n; i += 8 * kLanes64)
      add_rows_of<0, 1, 2, 3, 4, 5, 6, 7>(products + i, sums + i, x + i, y + i, rows, n);
  for (; i + 4 * kLanes64 <= n; i += 4 * kLanes64)
    add_rows_of<0, 1, 2, 3>(products + i, sums + i, x + i, y + i, rows, n);
  for (; i + kLanes64 <= n; i += kLanes64)
    add_rows_of<0>(products + i, sums + i, x + i, y + i, rows, n);
  for (; i < n; ++i)
    for (std::int64_t r = 0; r < rows; ++r) {
      sums[i] += x[r * n + i];
      products[i] += static_cast<double>(x[r * n + i]) * y[r * n + i];
    }
}

}  // namespace

const LayerNormTable& layer_norm_table() {
  static constexpr LayerNormTable table{{squares_from<float>, normalize<F32>, dots<float>,
                                         gradient<F32>, add_columns<float>, add_rows<float>},
                                        {squares_from<double>, normalize<F64>, dots<double>,
                                         gradient<F64>, add_columns<double>, add_rows<double>}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
