// kernels/cpu/row_product_loops.isa.cc — products of few rows, per instruction set. Every element
// of b is read once, in the order of memory, so that they run at memory's speed.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

constexpr std::int64_t kColumns = 2048;  ///< whose sums stay in the first cache
constexpr int kDeep = 8;                 ///< lines of b that are read at once

/// Elements of b as floats. S: float, Bf16Bits or F16Bits.
template <class S>
ALPA_INLINE F32 load(const S* x) {
  if constexpr (__is_same(S, float))
    return F32::load(x);
  else
    return widen_half<S>(x);
}
template <class S>
ALPA_INLINE float to_float(S x) {
  if constexpr (__is_same(S, float))
    return x;
  else
    return widen_half<S>(broadcast(x.bits)).v[0];
}

/// Asks for what is read next: the processor's own prefetching stays behind memory's speed.
ALPA_INLINE void prefetch(const void* x) { __builtin_prefetch(x, 0, 3); }

/// c += a b for `deep` lines of b from line `first` on.
template <class S, int deep>
void add_lines(const RowProduct& p, std::int64_t first, std::int64_t begin, std::int64_t end) {
  const S* const lines = static_cast<const S*>(p.b) + first * p.b_lead;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    const float* const a = p.a + r * p.a_row + first * p.a_step;
    float* const c = p.c + r * p.c_row;
    float factors[deep];
    for (int i = 0; i < deep; ++i) factors[i] = a[i * p.a_step];
    std::int64_t j = begin;
    for (; j + F32::lanes <= end; j += F32::lanes) {
      F32 sum = F32::load(c + j);
      for (int i = 0; i < deep; ++i) {
        const S* const x = lines + i * p.b_lead + j;
        prefetch(x + deep * p.b_lead);
        sum = sum + F32(factors[i]) * load(x);
      }
      sum.store(c + j);
    }
    for (; j < end; ++j)
      for (int i = 0; i < deep; ++i) c[j] += factors[i] * to_float(lines[i * p.b_lead + j]);
  }
}

template <class S>
void along_n(const RowProduct& p) {
  for (std::int64_t begin = 0; begin < p.n; begin += kColumns) {
    const std::int64_t end = begin + kColumns < p.n ? begin + kColumns : p.n;
    for (std::int64_t r = 0; r < p.rows; ++r)
      for (std::int64_t j = begin; j < end; ++j) p.c[r * p.c_row + j] = 0;
    std::int64_t i = 0;
    for (; i + kDeep <= p.k; i += kDeep) add_lines<S, kDeep>(p, i, begin, end);
    for (; i < p.k; ++i) add_lines<S, 1>(p, i, begin, end);
  }
}

/// The sum of neighbours, of their sums, and so on.
float sum_of(const F32& x) {
  float lanes[F32::lanes];
  x.store(lanes);
  for (int half = F32::lanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// Columns j to j + wide - 1 of row r.
template <class S, int wide>
void multiply_columns(const RowProduct& p, std::int64_t r, std::int64_t j) {
  const float* const a = p.a + r * p.a_row;
  const S* const b = static_cast<const S*>(p.b) + j * p.b_lead;
  Float32s sums[wide] = {};
  std::int64_t i = 0;
  for (; i + F32::lanes <= p.k; i += F32::lanes)
    for (int w = 0; w < wide; ++w) {
      const S* const x = b + w * p.b_lead + i;
      prefetch(x + wide * p.b_lead);
      sums[w] += F32::load(a + i).v * load(x).v;
    }
  for (int w = 0; w < wide; ++w) {
    float sum = sum_of(F32(sums[w]));
    for (std::int64_t rest = i; rest < p.k; ++rest)
      sum += a[rest] * to_float(b[w * p.b_lead + rest]);
    p.c[r * p.c_row + j + w] = sum;
  }
}

template <class S>
void along_k(const RowProduct& p) {
  constexpr int kWide = 4;
  std::int64_t j = 0;
  for (; j + kWide <= p.n; j += kWide)
    for (std::int64_t r = 0; r < p.rows; ++r) multiply_columns<S, kWide>(p, r, j);
  for (; j < p.n; ++j)
    for (std::int64_t r = 0; r < p.rows; ++r) multiply_columns<S, 1>(p, r, j);
}

}  // namespace

const RowProductTable& row_product_table() {
  static constexpr RowProductTable table{.f32 = {along_n<float>, along_k<float>},
                                         .bf16 = {along_n<Bf16Bits>, along_k<Bf16Bits>},
                                         .f16 = {along_n<F16Bits>, along_k<F16Bits>}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
