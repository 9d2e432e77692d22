// kernels/cpu/reduce_loops.isa.cc — inner loops of reductions, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

using reducing::combine;
using reducing::neutral;

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

template <ReduceOp op, class V>
double combined(const typename V::Scalar* x, std::int64_t n) {
  V a(neutral<op, typename V::Scalar>()), b = a, c = a, d = a;
  std::int64_t i = 0;
  for (; i + 4 * V::lanes <= n; i += 4 * V::lanes) {
    a = combine<op>(V::load(x + i), a);
    b = combine<op>(V::load(x + i + V::lanes), b);
    c = combine<op>(V::load(x + i + 2 * V::lanes), c);
    d = combine<op>(V::load(x + i + 3 * V::lanes), d);
  }
  a = combine<op>(combine<op>(a, b), combine<op>(c, d));
  double result = neutral<op, double>();
  for (int lane = 0; lane < V::lanes; ++lane) result = combine<op>(result, double(a.v[lane]));
  for (; i < n; ++i) result = combine<op>(result, double(x[i]));
  return result;
}

template <ReduceOp op, class T>
void combine_rows(double* results, const T* x, std::int64_t rows, std::int64_t stride,
                  std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes64 <= n; i += kLanes64) {
    F64 result = F64::load(results + i);
    for (std::int64_t r = 0; r < rows; ++r)
      result = combine<op>(load_wide(x + r * stride + i), result);
    result.store(results + i);
  }
  for (; i < n; ++i)
    for (std::int64_t r = 0; r < rows; ++r)
      results[i] = combine<op>(results[i], double(x[r * stride + i]));
}

/// Sums of floats are carried in double all the way.
template <ReduceOp op, class V>
constexpr ReduceLoops<typename V::Scalar> loops_of() {
  using T = typename V::Scalar;
  if constexpr (op == ReduceOp::sum)
    return {sum_of<T>, combine_rows<op, T>};
  else
    return {combined<op, V>, combine_rows<op, T>};
}

template <int... ops>
constexpr ReduceTable table_of(std::integer_sequence<int, ops...>) {
  return {{loops_of<static_cast<ReduceOp>(ops), F32>()...},
          {loops_of<static_cast<ReduceOp>(ops), F64>()...}};
}

}  // namespace

const ReduceTable& reduce_table() {
  static constexpr ReduceTable table = table_of(std::make_integer_sequence<int, kNumReduceOps>());
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
