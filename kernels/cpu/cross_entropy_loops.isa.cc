// kernels/cpu/cross_entropy_loops.isa.cc — inner loops of cross entropy, per instruction set
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

template <class V, class T = typename V::Scalar>
T maximum(const T* x, std::int64_t n) {
  constexpr int kWays = 4;
  const V least(reducing::neutral<ReduceOp::max, T>());
  V ways[kWays] = {least, least, least, least};
  std::int64_t i = 0;
  for (; i + kWays * V::lanes <= n; i += kWays * V::lanes)
    for (int way = 0; way < kWays; ++way)
      ways[way] = reducing::combine<ReduceOp::max>(ways[way], V::load(x + i + way * V::lanes));
  T largest = least.v[0];
  for (int way = 0; way < kWays; ++way)
    for (int lane = 0; lane < V::lanes; ++lane) {
      const T candidate = ways[way].v[lane];
      largest = reducing::combine<ReduceOp::max>(largest, candidate);
    }
  for (; i < n; ++i) largest = reducing::combine<ReduceOp::max>(largest, x[i]);
  return largest;
}

/// The last n elements, fewer than a vector, as one; others repeat the first.
template <class V, class T = typename V::Scalar>
ALPA_INLINE V load_rest(const T* x, std::int64_t n) {
  V rest(x[0]);
  for (std::int64_t i = 0; i < n; ++i) rest.v[i] = x[i];
  return rest;
}

template <class V, class T = typename V::Scalar>
double exponentials(const T* x, T shift, std::int64_t n) {
  const V shifts(shift);
  V first(T(0)), second(T(0));
  std::int64_t i = 0;
  for (; i + 2 * V::lanes <= n; i += 2 * V::lanes) {
    first = first + exp(V::load(x + i) - shifts);
    second = second + exp(V::load(x + i + V::lanes) - shifts);
  }
  for (; i + V::lanes <= n; i += V::lanes) first = first + exp(V::load(x + i) - shifts);
  first = first + second;
  double sum = 0;
  for (int lane = 0; lane < V::lanes; ++lane) sum += static_cast<double>(first.v[lane]);
  if (i == n) return sum;
  const V rest = exp(load_rest<V>(x + i, n - i) - shifts);
  for (std::int64_t j = 0; j < n - i; ++j) sum += static_cast<double>(rest.v[j]);
  return sum;
}

template <class V, class T = typename V::Scalar>
void gradient(T* dx, const T* x, T shift, T factor, T term, std::int64_t n) {
  const V shifts(shift), factors(factor), terms(term);
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes)
    (exp(V::load(x + i) - shifts) * factors + terms).store(dx + i);
  if (i == n) return;
  const V rest = exp(load_rest<V>(x + i, n - i) - shifts) * factors + terms;
  for (std::int64_t j = 0; j < n - i; ++j) dx[i + j] = rest.v[j];
}

}  // namespace

const CrossEntropyTable& cross_entropy_table() {
  static constexpr CrossEntropyTable table{{maximum<F32>, exponentials<F32>, gradient<F32>},
                                           {maximum<F64>, exponentials<F64>, gradient<F64>}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
