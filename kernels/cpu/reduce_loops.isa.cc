#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

/// As many doubles as F32 has floats.
struct WideSum {
  F64 low{0}, high{0};
};

ALPA_INLINE F64 half_of(F32 x, int which) {
  HalfFloat32s part;
  __builtin_memcpy(&part, reinterpret_cast<const char*>(&x.v) + which * sizeof part, sizeof part);
  return __builtin_convertvector(part, Float64s);
}
ALPA_INLINE void add_to(WideSum& sum, F32 x) {
  sum.low = sum.low + half_of(x, 0);
  sum.high = sum.high + half_of(x, 1);
}
ALPA_INLINE double total(F64 x) {
  double sum = 0;
  for (int i = 0; i < F64::lanes; ++i) sum += x.v[i];
  return sum;
}

double sum32(const float* x, std::int64_t n) {
  WideSum a, b;
  std::int64_t i = 0;
  for (; i + 2 * kLanes32 <= n; i += 2 * kLanes32) {
    add_to(a, F32::load(x + i));
    add_to(b, F32::load(x + i + kLanes32));
  }
  double rest = 0;
  for (; i < n; ++i) rest += x[i];
  return total(a.low + a.high + b.low + b.high) + rest;
}

double sum64(const double* x, std::int64_t n) {
  F64 a(0), b(0), c(0), d(0);
  std::int64_t i = 0;
  for (; i + 4 * kLanes64 <= n; i += 4 * kLanes64) {
    a = a + F64::load(x + i);
    b = b + F64::load(x + i + kLanes64);
    c = c + F64::load(x + i + 2 * kLanes64);
    d = d + F64::load(x + i + 3 * kLanes64);
  }
  double rest = 0;
  for (; i < n; ++i) rest += x[i];
  return total((a + b) + (c + d)) + rest;
}

/// The larger one; NaN wins.
template <class V>
ALPA_INLINE V larger(V a, V b) {
  return select(a > b, a, select(a == a, b, a));
}
ALPA_INLINE double larger(double a, double b) { return a > b || a != a ? a : b; }

template <class V>
double max_of(const typename V::Scalar* x, std::int64_t n) {
  V a(-__builtin_inf()), b = a;
  std::int64_t i = 0;
  for (; i + 2 * V::lanes <= n; i += 2 * V::lanes) {
    a = larger(a, V::load(x + i));
    b = larger(b, V::load(x + i + V::lanes));
  }
  a = larger(a, b);
  double result = -__builtin_inf();
  for (int lane = 0; lane < V::lanes; ++lane) result = larger(result, double(a.v[lane]));
  for (; i < n; ++i) result = larger(result, double(x[i]));
  return result;
}

void add_rows32(double* sums, const float* x, std::int64_t rows, std::int64_t stride, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes32 <= n; i += kLanes32) {
    WideSum sum{F64::load(sums + i), F64::load(sums + i + kLanes64)};
    for (std::int64_t r = 0; r < rows; ++r) add_to(sum, F32::load(x + r * stride + i));
    sum.low.store(sums + i);
    sum.high.store(sums + i + kLanes64);
  }
  for (; i < n; ++i)
    for (std::int64_t r = 0; r < rows; ++r) sums[i] += x[r * stride + i];
}

void add_rows64(double* sums, const double* x, std::int64_t rows, std::int64_t stride, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes64 <= n; i += kLanes64) {
    F64 sum = F64::load(sums + i);
    for (std::int64_t r = 0; r < rows; ++r) sum = sum + F64::load(x + r * stride + i);
    sum.store(sums + i);
  }
  for (; i < n; ++i)
    for (std::int64_t r = 0; r < rows; ++r) sums[i] += x[r * stride + i];
}

template <class V>
void max_rows(double* result, const typename V::Scalar* x, std::int64_t rows, std::int64_t stride,
              std::int64_t n) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) {
    V most = V::load(x + i);
    for (std::int64_t r = 1; r < rows; ++r) most = larger(most, V::load(x + r * stride + i));
    for (int lane = 0; lane < V::lanes; ++lane)
      result[i + lane] = larger(result[i + lane], double(most.v[lane]));
  }
  for (; i < n; ++i)
    for (std::int64_t r = 0; r < rows; ++r) result[i] = larger(result[i], double(x[r * stride + i]));
}

}  // namespace

const ReduceTable& reduce_table() {
  static constexpr ReduceTable table{{{sum32, add_rows32}, {max_of<F32>, max_rows<F32>}},
                                     {{sum64, add_rows64}, {max_of<F64>, max_rows<F64>}}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
