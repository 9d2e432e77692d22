#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

/// The lanes added up in pairs.
ALPA_INLINE double total(F64 x) {
  for (int width = F64::lanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) x.v[i] += x.v[i + width];
  return x.v[0];
}

template <class T>
double sum_of(const T* x, std::int64_t n) {
  constexpr int kWays = 8;
  F64 sums[kWays] = {F64(0), F64(0), F64(0), F64(0), F64(0), F64(0), F64(0), F64(0)};
  std::int64_t i = 0;
  for (; i + kWays * kLanes64 <= n; i += kWays * kLanes64)
    for (int way = 0; way < kWays; ++way) sums[way] = sums[way] + load_wide(x + i + way * kLanes64);
  for (int width = kWays / 2; width > 0; width /= 2)
    for (int way = 0; way < width; ++way) sums[way] = sums[way] + sums[way + width];
  double rest = 0;
  for (; i < n; ++i) rest += x[i];
  return total(sums[0]) + rest;
}

template <class T>
void add_rows(double* sums, const T* x, std::int64_t rows, std::int64_t stride, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes64 <= n; i += kLanes64) {
    F64 sum = F64::load(sums + i);
    for (std::int64_t r = 0; r < rows; ++r) sum = sum + load_wide(x + r * stride + i);
    sum.store(sums + i);
  }
  for (; i < n; ++i)
    for (std::int64_t r = 0; r < rows; ++r) sums[i] += x[r * stride + i];
}

/// The larger one; NaN wins.
template <class V>
ALPA_INLINE V larger(V a, V b) {
  return select(a > b, a, select(a == a, b, a));
}
ALPA_INLINE double larger(double a, double b) { return a > b || a != a ? a : b; }

template <class V>
double max_of(const typename V::Scalar* x, std::int64_t n) {
  V a(-__builtin_inf()), b = a, c = a, d = a;
  std::int64_t i = 0;
  for (; i + 4 * V::lanes <= n; i += 4 * V::lanes) {
    a = larger(V::load(x + i), a);
    b = larger(V::load(x + i + V::lanes), b);
    c = larger(V::load(x + i + 2 * V::lanes), c);
    d = larger(V::load(x + i + 3 * V::lanes), d);
  }
  a = larger(larger(a, b), larger(c, d));
  double result = -__builtin_inf();
  for (int lane = 0; lane < V::lanes; ++lane) result = larger(result, double(a.v[lane]));
  for (; i < n; ++i) result = larger(result, double(x[i]));
  return result;
}

template <class T>
void max_rows(double* result, const T* x, std::int64_t rows, std::int64_t stride, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes64 <= n; i += kLanes64) {
    F64 most = F64::load(result + i);
    for (std::int64_t r = 0; r < rows; ++r) most = larger(load_wide(x + r * stride + i), most);
    most.store(result + i);
  }
  for (; i < n; ++i)
    for (std::int64_t r = 0; r < rows; ++r) result[i] = larger(result[i], double(x[r * stride + i]));
}

}  // namespace

const ReduceTable& reduce_table() {
  static constexpr ReduceTable table{{{sum_of<float>, add_rows<float>}, {max_of<F32>, max_rows<float>}},
                                     {{sum_of<double>, add_rows<double>}, {max_of<F64>, max_rows<double>}}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
