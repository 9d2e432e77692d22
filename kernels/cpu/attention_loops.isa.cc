// kernels/cpu/attention_loops.isa.cc — inner loops of attention, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

/// The sum of neighbours, of their sums, and so on: shorter than one lane after the other.
template <class V, class T = typename V::Scalar>
T sum_of_halves(const V& x) {
  T lanes[V::lanes];
  x.store(lanes);
  for (int half = V::lanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

template <class V, class T = typename V::Scalar>
T dot(const T* a, const T* b, std::int64_t n) {
  V sums(T(0));
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) sums = sums + V::load(a + i) * V::load(b + i);
  T sum = sum_of_halves(sums);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class V, class T = typename V::Scalar>
void multiply_keys(T* products, const T* q, const T* keys, std::int64_t lead, std::int64_t n,
                   std::int64_t width) {
  for (std::int64_t j = 0; j < n; ++j) products[j] = dot<V>(q, keys + j * lead, width);
}

template <class V, class T = typename V::Scalar>
void add_values(T* sums, const T* p, const T* values, std::int64_t lead, std::int64_t n,
                std::int64_t width) {
  std::int64_t d = 0;
  for (; d + V::lanes <= width; d += V::lanes) {
    V sum = V::load(sums + d);
    for (std::int64_t j = 0; j < n; ++j) sum = sum + V(p[j]) * V::load(values + j * lead + d);
    sum.store(sums + d);
  }
  for (; d < width; ++d)
    for (std::int64_t j = 0; j < n; ++j) sums[d] += p[j] * values[j * lead + d];
}

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

template <class V, class T = typename V::Scalar>
constexpr AttentionLoops<T> loops_of() {
  return {multiply_keys<V>, add_values<V>, exponentials<V>, gradient<V>, multiply<V>};
}

}  // namespace

const AttentionTable& attention_table() {
  static constexpr AttentionTable table{loops_of<F32>(), loops_of<F64>()};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
