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
    const V e = exp2(V::load(x + i) * factors - shifts);
    e.store(x + i);
    sums = sums + e;
  }
  T sum = 0;
  for (int lane = 0; lane < V::lanes; ++lane) sum += sums.v[lane];
  if (i == n) return sum;
  T rest[V::lanes] = {};
  for (std::int64_t j = i; j < n; ++j) rest[j - i] = x[j];
  exp2(V::load(rest) * factors - shifts).store(rest);
  for (std::int64_t j = i; j < n; ++j) sum += x[j] = rest[j - i];
  return sum;
}

// ---- products

/// Vectors of a row, and rows, whose sums stay in registers.
#if defined(__AVX512F__)
constexpr int kVectors = 4;
constexpr int rows_of(int vectors) { return vectors == 4 ? 6 : 8; }
#else
constexpr int kVectors = 2;
constexpr int rows_of(int vectors) { return vectors == 2 ? 6 : 8; }
#endif

/// `adjacent`: a's rows are, else what is summed over.
template <class V, int rows, int vectors, bool adjacent, class T = typename V::Scalar>
void multiply_tile(const TileProduct<T>& p, const T* a, const T* b, T* c) {
  typename V::Vector sums[rows][vectors] = {};
  if (p.add)
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] = V::load(c + r * p.c_lead + v * V::lanes).v;
  const std::int64_t row = adjacent ? 1 : p.a_row, step = adjacent ? p.a_step : 1;
  for (std::int64_t i = 0; i < p.k; ++i, a += step, b += p.b_lead) {
    typename V::Vector right[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) right[v] = V::load(b + v * V::lanes).v;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const V factor(a[r * row]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[r][v] += factor.v * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) V(sums[r][v]).store(c + r * p.c_lead + v * V::lanes);
}

/// The last rows of a panel of columns, fewer than `rows`.
template <class V, int rows, int vectors, bool adjacent, class T = typename V::Scalar>
void multiply_rest(const TileProduct<T>& p, std::int64_t rest, const T* a, const T* b, T* c) {
  if constexpr (rows > 1) {
    if (rest == rows - 1) return multiply_tile<V, rows - 1, vectors, adjacent>(p, a, b, c);
    multiply_rest<V, rows - 1, vectors, adjacent>(p, rest, a, b, c);
  }
}

template <class V, int vectors, bool adjacent, class T = typename V::Scalar>
void multiply_panel(const TileProduct<T>& p, const T* b, T* c) {
  constexpr int kRows = rows_of(vectors);
  std::int64_t r = 0;
  for (; r + kRows <= p.m; r += kRows)
    multiply_tile<V, kRows, vectors, adjacent>(p, p.a + r * p.a_row, b, c + r * p.c_lead);
  multiply_rest<V, kRows, vectors, adjacent>(p, p.m - r, p.a + r * p.a_row, b, c + r * p.c_lead);
}

/// A panel of so many vectors, at most `most`.
template <class V, int most, bool adjacent, class T = typename V::Scalar>
void multiply_panel_of(std::int64_t vectors, const TileProduct<T>& p, const T* b, T* c) {
  if constexpr (most > 1)
    if (vectors < most) return multiply_panel_of<V, most - 1, adjacent>(vectors, p, b, c);
  multiply_panel<V, most, adjacent>(p, b, c);
}

template <class V, class T = typename V::Scalar>
void multiply(const TileProduct<T>& p) {
  const std::int64_t vectors = p.n / V::lanes, panels = (vectors + kVectors - 1) / kVectors;
  for (std::int64_t panel = 0, v = 0, width; panel < panels; ++panel, v += width) {
    width = (vectors - v) / (panels - panel);
    const std::int64_t at = v * V::lanes;
    if (p.a_row == 1)
      multiply_panel_of<V, kVectors, true>(width, p, p.b + at, p.c + at);
    else
      multiply_panel_of<V, kVectors, false>(width, p, p.b + at, p.c + at);
  }
}

// ---- tiles of scores

/// Lines to columns: interleaves those half of all apart, again and again.
template <class V>
ALPA_INLINE void transpose_square(typename V::Vector* lines) {
  constexpr int n = V::lanes, half = n / 2;
#pragma GCC unroll 4
  for (int stage = 1; stage < n; stage *= 2) {
    typename V::Vector next[n];
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i)
      interleave<V>(next[2 * i], next[2 * i + 1], lines[i], lines[i + half],
                    std::make_integer_sequence<int, n>{});
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) lines[i] = next[i];
  }
}

template <class V, class T = typename V::Scalar>
void copy(T* to, std::int64_t to_lead, const T* from, std::int64_t from_lead, std::int64_t rows,
          std::int64_t width, std::int64_t filled) {
  const std::int64_t whole = width / V::lanes * V::lanes;
  for (std::int64_t r = 0; r < rows; ++r, to += to_lead, from += from_lead) {
    for (std::int64_t d = 0; d < whole; d += V::lanes) V::load(from + d).store(to + d);
    for (std::int64_t d = whole; d < width; ++d) to[d] = from[d];
    for (std::int64_t d = width; d < filled; ++d) to[d] = 0;
  }
}

template <class V, class T = typename V::Scalar>
void multiply_rows(T* dots, const T* a, const T* b, std::int64_t rows, std::int64_t lead,
                   T factor) {
  for (std::int64_t r = 0; r < rows; ++r)
    dots[r] = factor * dot<V>(a + r * lead, b + r * lead, lead);
}

template <class V, class T = typename V::Scalar>
void transpose(T* to, const T* from, std::int64_t rows, std::int64_t lead, T factor) {
  for (std::int64_t t = 0; t < rows; t += V::lanes)
    for (std::int64_t d = 0; d < lead; d += V::lanes) {
      typename V::Vector lines[V::lanes];
#pragma GCC unroll 16
      for (int i = 0; i < V::lanes; ++i) lines[i] = V::load(from + (t + i) * lead + d).v;
      transpose_square<V>(lines);
#pragma GCC unroll 16
      for (int i = 0; i < V::lanes; ++i)
        (V(lines[i]) * V(factor)).store(to + (d + i) * kTileQueries + t);
    }
}

/// How many keys of the tile the last query of a vector sees.
template <class V, class T>
ALPA_INLINE std::int64_t seen_of_vector(const ScoreTile<T>& tile, std::int64_t t) {
  const std::int64_t seen = t + V::lanes - 1 + tile.seen;
  return seen < 0 ? 0 : seen < tile.keys ? seen : tile.keys;
}

template <class V>
ALPA_INLINE V larger(V a, V b) {
  return select(a > b, a, b);
}

template <class V, class T = typename V::Scalar>
V largest_of(const T* scores, std::int64_t keys, V largest) {
  V others[3] = {largest, largest, largest};
  std::int64_t j = 0;
  for (; j + 4 <= keys; j += 4, scores += 4 * kTileQueries) {
    largest = larger(V::load(scores), largest);
    for (int way = 0; way < 3; ++way)
      others[way] = larger(V::load(scores + (way + 1) * kTileQueries), others[way]);
  }
  for (; j < keys; ++j, scores += kTileQueries) largest = larger(V::load(scores), largest);
  return larger(larger(largest, others[0]), larger(others[1], others[2]));
}

template <class V, class T = typename V::Scalar>
void softmax(const ScoreTile<T>& tile, T* largest, T* sum, T* correction) {
  const V nothing(-static_cast<T>(__builtin_inff()));
  for (std::int64_t t = 0; t < tile.queries; t += V::lanes) {
    T* const scores = tile.scores + t;
    const std::int64_t keys = seen_of_vector<V>(tile, t);
    const V before = V::load(largest + t), now = largest_of<V>(scores, keys, before),
            shift = select(now == nothing, V(T(0)), now), factor = exp2(before - shift);
    V total = V::load(sum + t) * factor;
    for (std::int64_t j = 0; j < keys; ++j) {
      const V p = exp2(V::load(scores + j * kTileQueries) - shift);
      p.store(scores + j * kTileQueries);
      total = total + p;
    }
    now.store(largest + t), total.store(sum + t), factor.store(correction + t);
  }
}

template <class V, class T = typename V::Scalar>
void finish(const T* largest, const T* sum, std::int64_t queries, T* inverse, T* lse) {
  const V zero(T(0)), infinity(static_cast<T>(__builtin_inff())), log_of_2(T(0.6931471805599453));
  for (std::int64_t t = 0; t < queries; t += V::lanes) {
    const V total = V::load(sum + t);
    const auto seen = total > zero;
    select(seen, V(T(1)) / total, zero).store(inverse + t);
    select(seen, V::load(largest + t) * log_of_2 + log(total), infinity).store(lse + t);
  }
}

template <class V, class T = typename V::Scalar>
void soft_cap(const ScoreTile<T>& tile, T cap, T* slopes) {
  const V one(T(1)), most(T(40)), least(T(-40)), to_exponent(T(2.8853900817779268) / cap);
  for (std::int64_t t = 0; t < tile.queries; t += V::lanes) {
    const std::int64_t keys = seen_of_vector<V>(tile, t);
    for (std::int64_t at = t; at < t + keys * kTileQueries; at += kTileQueries) {
      // tanh(x) = (e - 1) / (e + 1) with e = 2^(2 x log2 e), which is 1 within rounding at x = 14
      V x = V::load(tile.scores + at) * to_exponent;
      x = select(x > most, most, select(x > least, x, least));
      const V e = exp2(x), y = (e - one) / (e + one);
      (y * V(cap)).store(tile.scores + at);
      if (slopes != nullptr) (one - y * y).store(slopes + at);
    }
  }
}

template <class V, class T = typename V::Scalar>
void gradient(const ScoreTile<T>& tile, T* dp, const T* shifts, const T* deltas) {
  for (std::int64_t t = 0; t < tile.queries; t += V::lanes) {
    const V shift = V::load(shifts + t), delta = V::load(deltas + t);
    const std::int64_t keys = seen_of_vector<V>(tile, t);
    for (std::int64_t at = t; at < t + keys * kTileQueries; at += kTileQueries) {
      const V p = exp2(V::load(tile.scores + at) - shift);
      p.store(tile.scores + at);
      (p * (V::load(dp + at) - delta)).store(dp + at);
    }
  }
}

template <class V, class T = typename V::Scalar>
void scale_rows(T* x, const T* factors, std::int64_t rows, std::int64_t lead) {
  for (std::int64_t r = 0; r < rows; ++r, x += lead)
    for (std::int64_t d = 0; d < lead; d += V::lanes) (V::load(x + d) * V(factors[r])).store(x + d);
}

template <class V, class T = typename V::Scalar>
constexpr AttentionLoops<T> loops_of() {
  return {V::lanes,         multiply<V>,   copy<V>,        transpose<V>,     softmax<V>,
          finish<V>,        soft_cap<V>,   gradient<V>,    multiply_rows<V>, scale_rows<V>,
          multiply_keys<V>, add_values<V>, exponentials<V>};
}

}  // namespace

const AttentionTable& attention_table() {
  static constexpr AttentionTable table{loops_of<F32>(), loops_of<F64>()};
  return table;
}

}  // namespace alpa::cpu::ALPA_ISA
