// kernels/cpu/attention_loops.isa.cc — inner loops of attention, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

template <class V, class T = typename V::Scalar>
T exponentials(T* x, T factor, T shift, std::int64_t n) {
  const V factors(factor), shifts(shift);
  V sums(T(0));
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) {
    const V e = exp(V::load(x + i) * factors - shifts);
    e.store(x + i);
    sums = sums + e;
  }
  T sum = 0;
  for (int lane = 0; lane < V::lanes; ++lane) sum += sums.v[lane];
  if (i == n) return sum;
  T rest[V::lanes] = {};
  for (std::int64_t j = i; j < n; ++j) rest[j - i] = x[j];
  exp(V::load(rest) * factors - shifts).store(rest);
  for (std::int64_t j = i; j < n; ++j) sum += x[j] = rest[j - i];
  return sum;
}

template <class V, class T = typename V::Scalar>
void gradient(T* dx, const T* p, T delta, T factor, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes)
    (V::load(p + i) * (V::load(dx + i) - V(delta)) * V(factor)).store(dx + i);
  for (; i < n; ++i) dx[i] = p[i] * (dx[i] - delta) * factor;
}

template <class V, class T = typename V::Scalar>
void multiply(T* x, T factor, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) (V::load(x + i) * V(factor)).store(x + i);
  for (; i < n; ++i) x[i] *= factor;
}

}  // namespace

const AttentionTable& attention_table() {
  static constexpr AttentionTable table{{exponentials<F32>, gradient<F32>, multiply<F32>},
                                        {exponentials<F64>, gradient<F64>, multiply<F64>}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
