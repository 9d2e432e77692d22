// kernels/cpu/row_product_loops.isa.cc — products of few rows, per instruction set. Every element
// of b is read once, in the order of memory, so that they run at memory's speed.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd.h"

namespace alpa::cpu::ALPA_ISA {
namespace {

constexpr std::int64_t kColumns = 2048;  ///< whose sums stay in the first cache
constexpr int kDeep = 8, kWide = 4;      ///< lines of b, and columns, that are read at once
constexpr int kTall = 4;                 ///< rows that are multiplied with what was read

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

/// c += a b for `rows` rows from `row` on and `deep` lines of b from line `first` on.
template <class S, int rows, int deep>
void add_lines(const RowProduct& p, std::int64_t row, std::int64_t first, std::int64_t begin,
               std::int64_t end) {
  const S* const lines = static_cast<const S*>(p.b) + first * p.b_lead;
  const float* const a = p.a + row * p.a_row + first * p.a_step;
  float* const c = p.c + row * p.c_row;
  float factors[deep][rows];
  for (int i = 0; i < deep; ++i)
    for (int r = 0; r < rows; ++r) factors[i][r] = a[r * p.a_row + i * p.a_step];
  std::int64_t j = begin;
  for (; j + F32::lanes <= end; j += F32::lanes) {
    Float32s sums[rows];
    for (int r = 0; r < rows; ++r) sums[r] = F32::load(c + r * p.c_row + j).v;
    for (int i = 0; i < deep; ++i) {
      const S* const x = lines + i * p.b_lead + j;
      prefetch(x + deep * p.b_lead);
      const F32 loaded = load(x);
      for (int r = 0; r < rows; ++r) sums[r] += factors[i][r] * loaded.v;
    }
    for (int r = 0; r < rows; ++r) F32(sums[r]).store(c + r * p.c_row + j);
  }
  for (; j < end; ++j)
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < deep; ++i)
        c[r * p.c_row + j] += factors[i][r] * to_float(lines[i * p.b_lead + j]);
}

template <class S, int deep>
void add_lines(const RowProduct& p, std::int64_t first, std::int64_t begin, std::int64_t end) {
  std::int64_t row = 0;
  for (; row + kTall <= p.rows; row += kTall) add_lines<S, kTall, deep>(p, row, first, begin, end);
  for (; row < p.rows; ++row) add_lines<S, 1, deep>(p, row, first, begin, end);
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

/// Columns j to j + wide - 1 of `rows` rows from `row` on.
template <class S, int rows, int wide>
void multiply_columns(const RowProduct& p, std::int64_t row, std::int64_t j) {
  const float* const a = p.a + row * p.a_row;
  const S* const b = static_cast<const S*>(p.b) + j * p.b_lead;
  Float32s sums[rows][wide] = {};
  std::int64_t i = 0;
  for (; i + F32::lanes <= p.k; i += F32::lanes)
    for (int w = 0; w < wide; ++w) {
      const S* const x = b + w * p.b_lead + i;
      prefetch(x + wide * p.b_lead);
      const F32 loaded = load(x);
      for (int r = 0; r < rows; ++r) sums[r][w] += F32::load(a + r * p.a_row + i).v * loaded.v;
    }
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < wide; ++w) {
      float sum = sum_of(F32(sums[r][w]));
      for (std::int64_t rest = i; rest < p.k; ++rest)
        sum += a[r * p.a_row + rest] * to_float(b[w * p.b_lead + rest]);
      p.c[(row + r) * p.c_row + j + w] = sum;
    }
}

template <class S, int wide>
void multiply_columns(const RowProduct& p, std::int64_t j) {
  std::int64_t row = 0;
  for (; row + kTall <= p.rows; row += kTall) multiply_columns<S, kTall, wide>(p, row, j);
  for (; row < p.rows; ++row) multiply_columns<S, 1, wide>(p, row, j);
}

template <class S>
void along_k(const RowProduct& p) {
  std::int64_t j = 0;
  for (; j + kWide <= p.n; j += kWide) multiply_columns<S, kWide>(p, j);
  for (; j < p.n; ++j) multiply_columns<S, 1>(p, j);
}

}  // namespace

const RowProductTable& row_product_table() {
  static constexpr RowProductTable table{.f32 = {along_n<float>, along_k<float>},
                                         .bf16 = {along_n<Bf16Bits>, along_k<Bf16Bits>},
                                         .f16 = {along_n<F16Bits>, along_k<F16Bits>}};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
