// kernels/cuda/attention_tiles.cu — attention and its gradient on tensor cores
#include "kernels/cuda/attention_tiles.h"

#include <initializer_list>

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/attention_scores.h"
#include "kernels/cuda/tensor_core.h"

namespace alpa::cuda {
namespace {

using kernels::AttentionShape;
using Bits = unsigned short;  ///< an element of 16 bits, whatever its type

constexpr int kThreads = 128;
constexpr int kOwn = 64;  ///< rows of a block's own tile: queries, or keys; 16 of each warp
constexpr float kLog2E = 1.4426950408889634f;

/// Between rows of a tile: rows of eight matrices meet no bank twice.
template <int width>
constexpr int kLead = width + 8;
template <int width, int rows>
constexpr int kTileWords = rows* kLead<width> / 8;  ///< of 16 bytes

/// Where the fragments of this lane begin; see tensor_core.h.
struct WarpLane {
  int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32),
      group = lane / 4, pair = lane % 4 * 2;

  /// Row of a block's own tile that element i of a result belongs to.
  __device__ int row(int i) const { return warp * 16 + group + i / 2 * 8; }
  /// Column of element i of result n.
  __device__ int column(int n, int i) const { return n * 8 + pair + i % 2; }
};

/// What a kernel is compiled for. Packed rows are copied in packs of 16 bytes beside the products
/// of the tile before, and written in pairs. All else is slower.
enum class Form : std::uint8_t {
  general,
  plain,    ///< packed, no dropout
  dropped,  ///< packed, with dropout
  masked,   ///< as `general`, with a soft cap, segments or both
};
template <Form form>
constexpr bool kIsPacked = form == Form::plain || form == Form::dropped;

/// One head of a tensor [B, N, heads, D].
template <class T>
struct Head {
  T* first;
  std::int64_t rows, lead;
  int width;

  __device__ T* row(std::int64_t i) const { return first + i * lead; }
};

template <class T, class Element>
__device__ Head<T> head_of(Element* tensor, std::int64_t batch, std::int64_t rows,
                           std::int64_t heads, std::int64_t head, std::int64_t width) {
  return {static_cast<T*>(tensor) + (batch * rows * heads + head) * width, rows, heads * width,
          static_cast<int>(width)};
}

/// Eight elements of a row, zeros where it ends.
template <class T>
__device__ uint4 some_of_row(const T* from, int left) {
  T some[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) some[j] = j < left ? from[j] : T{};
  uint4 word;
  memcpy(&word, some, sizeof word);
  return word;
}

/// Of a thread: the packs of two tiles of own rows.
template <int width>
using Copies = AsyncCopies<2 * kOwn * width / 8 / kThreads * 2>;

/// Rows [first, first + rows) of a head, zeros beyond it; there once the copies are.
template <Form form, int width, int rows, class T>
__device__ void load_tile(Copies<width>& copies, Bits* tile, const Head<const T>& head,
                          std::int64_t first) {
  constexpr int kPacks = width / 8;
#pragma unroll
  for (int i = 0; i < rows * kPacks / kThreads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / kPacks,
              column = at % kPacks * 8;
    auto* const to = reinterpret_cast<uint4*>(tile + row * kLead<width> + column);
    const bool there = first + row < head.rows && column < head.width;
    const T* const from = there ? head.row(first + row) + column : head.first;
    if constexpr (!kIsPacked<form>)
      *to = some_of_row(from, there ? head.width - column : 0);
    else
      copies.copy(to, from, there);
  }
}

/// Rows of results that a block owns, times `factors` of their two halves.
template <Form form, int width, class T>
__device__ void store_rows(const Head<T>& head, std::int64_t first, const WarpLane& at,
                           const float (&results)[width / 8][4], const float (&factors)[2]) {
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t row = first + at.row(2 * half);
      const int column = at.column(n, 0);
      if (row >= head.rows || column >= head.width) continue;
      const unsigned int both = pair_of<T>(results[n][2 * half] * factors[half],
                                           results[n][2 * half + 1] * factors[half]);
      T* const to = head.row(row) + column;
      if constexpr (kIsPacked<form>) {
        *reinterpret_cast<unsigned int*>(to) = both;
      } else {
        T elements[2];
        memcpy(elements, &both, sizeof both);
        to[0] = elements[0];
        if (column + 1 < head.width) to[1] = elements[1];
      }
    }
}

/// Rows [16 · warp, + 16) and columns [column, + 16) of a tile as a left operand.
template <int width>
__device__ LeftFragment left_of(const Bits* tile, const WarpLane& at, int column) {
  LeftFragment a;
  load_matrices<false>(
      a.pairs, tile + (at.warp * 16 + at.lane % 16) * kLead<width> + column + at.lane / 16 * 8);
  return a;
}

template <int width>
struct LeftRows {
  LeftFragment parts[width / 16];
  __device__ void load(const Bits* tile, const WarpLane& at) {
#pragma unroll
    for (int k = 0; k < width / 16; ++k) parts[k] = left_of<width>(tile, at, 16 * k);
  }
};

/// c += a · rows [0, 8 n) of the tile, transposed.
template <class T, int width, int n, class LeftAt>
__device__ void add_products(float (&c)[n][4], const LeftAt& left, const Bits* tile,
                             const WarpLane& at) {
#pragma unroll
  for (int k = 0; k < width / 16; ++k) {
    const LeftFragment a = left(k);
#pragma unroll
    for (int i = 0; i < n; i += 2) {
      unsigned int pairs[4];
      load_matrices<false>(pairs, tile + (8 * i + at.lane % 8 + at.lane / 16 * 8) * kLead<width> +
                                      16 * k + at.lane / 8 % 2 * 8);
      multiply_add<T>(c[i], a, {{pairs[0], pairs[1]}});
      multiply_add<T>(c[i + 1], a, {{pairs[2], pairs[3]}});
    }
  }
}

/// c += p · rows [0, 8 n) of the tile: p is rounded to T.
template <class T, int width, int n>
__device__ void add_rows(float (&c)[width / 8][4], const float (&p)[n][4], const Bits* tile,
                         const WarpLane& at) {
#pragma unroll
  for (int k = 0; k < n / 2; ++k) {
    const float(&low)[4] = p[2 * k], (&high)[4] = p[2 * k + 1];
    const LeftFragment a = {{pair_of<T>(low[0], low[1]), pair_of<T>(low[2], low[3]),
                             pair_of<T>(high[0], high[1]), pair_of<T>(high[2], high[3])}};
#pragma unroll
    for (int i = 0; i < width / 8; i += 2) {
      unsigned int pairs[4];
      load_matrices<true>(pairs,
                          tile + (16 * k + at.lane % 16) * kLead<width> + 8 * i + at.lane / 16 * 8);
      multiply_add<T>(c[i], a, {{pairs[0], pairs[1]}});
      multiply_add<T>(c[i + 1], a, {{pairs[2], pairs[3]}});
    }
  }
}

/// Of the four lanes that share a row.
__device__ inline float largest_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1, 32));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2, 32));
}
__device__ inline float sum_of_row(float x) {
  x += __shfl_xor_sync(~0u, x, 1, 32);
  return x + __shfl_xor_sync(~0u, x, 2, 32);
}

/// The part of the problem that a block computes: its head, and the first of its own rows.
struct Block {
  std::int64_t batch, head, first;

  /// Later rows first: with a diagonal they take longer.
  __device__ Block(std::int64_t heads, std::int64_t rows) {
    const std::int64_t tiles = (rows + kOwn - 1) / kOwn;
    const Division at = divide(static_cast<std::int64_t>(blockIdx.x), tiles),
                   row = divide(at.quotient, heads);
    batch = row.quotient, head = row.remainder, first = (tiles - 1 - at.remainder) * kOwn;
  }
};

/// The scores of a head.
template <Form form>
struct Scores {
  const AttentionShape& s;
  kernels::HiddenKeys hidden;
  std::int64_t batch;

  /// Whether queries [query, + of_queries) all see keys [key, + keys).
  __device__ bool are_seen(std::int64_t query, int of_queries, std::int64_t key, int keys) const {
    if constexpr (form == Form::masked)
      if (hidden.query_segments != nullptr) return false;
    return hidden.mask == nullptr && key + keys <= seen_keys(s, query) &&
           (s.window == 0 || first_seen_key(s, query + of_queries - 1) <= key);
  }
  __device__ bool is_seen(std::int64_t query, std::int64_t key) const {
    if constexpr (form == Form::masked)
      if (query >= s.queries || key >= s.keys || !are_together(s, hidden, batch, query, key))
        return false;
    return cuda::is_seen(s, hidden.mask, batch, query, key);
  }
};

/// What dropout makes of element i of result n, of which a lane keeps `kept`.
template <Form form>
__device__ float factor_of(const Dropout& dropout, unsigned kept, int n, int i) {
  if constexpr (form == Form::plain) return 1;
  return (kept >> (4 * n + i) & 1) != 0 ? dropout.factor() : 0.0f;
}

// ---- forward

constexpr int kKeys = 32;  ///< of a tile

/// Softmax so far of the two rows of a lane; a lane's sum is of its own columns.
struct Softmax {
  float largest[2], sum[2];
};

/// Products to exponentials; the factors for what was added up before.
template <int n>
__device__ void add_tile(Softmax& rows, float (&p)[n][4], float (&corrections)[2], float factor) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float now = rows.largest[half];
#pragma unroll
    for (int i = 0; i < n; ++i) now = fmaxf(now, fmaxf(p[i][2 * half], p[i][2 * half + 1]));
    now = largest_of_row(now);
    const float base = now == -INFINITY ? 0.0f : now * factor;
    corrections[half] = approximate_exp2(rows.largest[half] * factor - base);
    rows.largest[half] = now, rows.sum[half] *= corrections[half];
#pragma unroll
    for (int i = 0; i < n; ++i)
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j) {
        p[i][j] = approximate_exp2(p[i][j] * factor - base);
        rows.sum[half] += p[i][j];
      }
  }
}

template <Form form, class T, int width>
__global__ void __launch_bounds__(kThreads)
    attend_tiles(const __grid_constant__ AttentionShape s, const AttentionTensors x,
                 const StepNumbers* step) {
  __shared__ uint4 memory[2][2 * kTileWords<width, kKeys>];
  const WarpLane at;
  const Block block(s.heads, s.queries);
  const Scores<form> scores{s, x.hidden, block.batch};
  const Dropout dropout(s, step, block.batch, block.head);
  const std::int64_t key_head = block.head / s.group;
  const auto keys = head_of<const T>(x.k, block.batch, s.keys, s.key_heads, key_head, s.width);
  const auto values = head_of<const T>(x.v, block.batch, s.keys, s.key_heads, key_head, s.width);
  const std::int64_t begin = first_seen_key(s, block.first) / kKeys * kKeys;
  Copies<width> copies;
  const auto load = [&](std::int64_t key) {
    Bits* const tiles = reinterpret_cast<Bits*>(memory[(key - begin) / kKeys % 2]);
    load_tile<form, width, kKeys>(copies, tiles, keys, key);
    load_tile<form, width, kKeys>(copies, tiles + kKeys * kLead<width>, values, key);
  };
  LeftRows<width> q;
  Bits* const own_tile = reinterpret_cast<Bits*>(memory[1]);
  load_tile<form, width, kOwn>(
      copies, own_tile, head_of<const T>(x.q, block.batch, s.queries, s.heads, block.head, s.width),
      block.first);
  load(begin);
  copies.wait();
  __syncthreads();
  q.load(own_tile, at);

  const float factor = static_cast<float>(s.scale) * kLog2E;
  Softmax rows{{-INFINITY, -INFINITY}, {0, 0}};
  float y[width / 8][4] = {};
  const std::int64_t last = block.first + kOwn - 1 < s.queries ? block.first + kOwn - 1
                                                               : s.queries - 1,
                     end = seen_keys(s, last);
  for (std::int64_t key = begin; key < end; key += kKeys) {
    copies.wait();
    __syncthreads();  // also: all have used the tiles that are copied over now
    if (key + kKeys < end) load(key + kKeys);
    const Bits* const k_tile = reinterpret_cast<const Bits*>(memory[(key - begin) / kKeys % 2]);
    const Bits* const v_tile = k_tile + kKeys * kLead<width>;
    float p[kKeys / 8][4] = {}, corrections[2];
    add_products<T, width>(
        p, [&](int i) { return q.parts[i]; }, k_tile, at);
    if constexpr (form == Form::masked)
      if (s.soft_cap > 0)
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) p[n][i] = capped(s, p[n][i]);
    if (!scores.are_seen(block.first, kOwn, key, kKeys))
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (!scores.is_seen(block.first + at.row(i), key + at.column(n, i))) p[n][i] = -INFINITY;
    add_tile(rows, p, corrections, factor);
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) y[n][i] *= corrections[i / 2];
    if constexpr (form != Form::plain) {
      const unsigned kept = kept_of_queries<kKeys / 8>(dropout, at, block.first, key);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) p[n][i] *= factor_of<form>(dropout, kept, n, i);
    }
    add_rows<T, width>(y, p, v_tile, at);
  }

  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = sum_of_row(rows.sum[half]);
    const std::int64_t query = block.first + at.row(2 * half);
    factors[half] = sum > 0 ? 1 / sum : 0.0f;
    if (at.lane % 4 == 0 && query < s.queries)
      static_cast<float*>(x.lse)[number_of(s, block.batch, block.head, query)] =
          sum > 0 ? rows.largest[half] * static_cast<float>(s.scale) + ::logf(sum) : INFINITY;
  }
  store_rows<form, width>(head_of<T>(x.y, block.batch, s.queries, s.heads, block.head, s.width),
                          block.first, at, y, factors);
}

// ---- gradient

/// A query's statistics: lse in powers of 2, and Σ dy·y.
struct Statistics {
  float lse, delta;
};

__device__ inline Statistics statistics_of(const AttentionShape& s, const AttentionGradTensors& x,
                                           const Block& block, std::int64_t head,
                                           std::int64_t query) {
  if (query >= s.queries) return {INFINITY, 0};
  const std::int64_t number = number_of(s, block.batch, head, query);
  return {static_cast<const float*>(x.lse)[number] * kLog2E,
          static_cast<const float*>(x.delta)[number]};
}

/// A probability as dropout leaves it, and the gradient of its product over the scale.
struct Pair {
  float p, dproduct;
};
template <Form form>
__device__ Pair differentiate(const Scores<form>& scores, float product, float dp,
                              const Statistics& of, float factor, float kept, std::int64_t query,
                              std::int64_t key, bool all_seen) {
  if (!all_seen && !scores.is_seen(query, key)) return {0, 0};
  float slope = 1;
  if constexpr (form == Form::masked)
    if (scores.s.soft_cap > 0)
      product = capped(scores.s, product), slope = slope_of_cap(scores.s, product);
  const float p = approximate_exp2(product * factor - of.lse);
  return {p * kept, p * (dp * kept - of.delta) * slope};
}

template <Form form, class T, int width>
__global__ void __launch_bounds__(kThreads)
    differentiate_query_tiles(const __grid_constant__ AttentionShape s,
                              const AttentionGradTensors x, const StepNumbers* step) {
  __shared__ uint4 memory[2][2 * kTileWords<width, kKeys>];
  const WarpLane at;
  const Block block(s.heads, s.queries);
  const Scores<form> scores{s, x.hidden, block.batch};
  const Dropout dropout(s, step, block.batch, block.head);
  const std::int64_t key_head = block.head / s.group;
  const auto keys = head_of<const T>(x.k, block.batch, s.keys, s.key_heads, key_head, s.width);
  const auto values = head_of<const T>(x.v, block.batch, s.keys, s.key_heads, key_head, s.width);
  const std::int64_t begin = first_seen_key(s, block.first) / kKeys * kKeys;
  Copies<width> copies;
  const auto load = [&](std::int64_t key) {
    Bits* const tiles = reinterpret_cast<Bits*>(memory[(key - begin) / kKeys % 2]);
    load_tile<form, width, kKeys>(copies, tiles, keys, key);
    load_tile<form, width, kKeys>(copies, tiles + kKeys * kLead<width>, values, key);
  };
  LeftRows<width> q, dy;
  const auto load_own = [&](Bits* tile, const void* tensor) {
    load_tile<form, width, kOwn>(
        copies, tile,
        head_of<const T>(tensor, block.batch, s.queries, s.heads, block.head, s.width),
        block.first);
  };
  Bits* const q_tile = reinterpret_cast<Bits*>(memory[0]);
  Bits* const dy_tile = reinterpret_cast<Bits*>(memory[1]);
  load_own(q_tile, x.q), load_own(dy_tile, x.dy);
  copies.wait();
  __syncthreads();
  q.load(q_tile, at), dy.load(dy_tile, at);
  __syncthreads();
  const Statistics statistics[2] = {
      statistics_of(s, x, block, block.head, block.first + at.row(0)),
      statistics_of(s, x, block, block.head, block.first + at.row(2))};

  const float scale = static_cast<float>(s.scale), factor = scale * kLog2E;
  float dq[width / 8][4] = {};
  const std::int64_t last = block.first + kOwn - 1 < s.queries ? block.first + kOwn - 1
                                                               : s.queries - 1,
                     end = seen_keys(s, last);
  if (end > begin) load(begin);
  for (std::int64_t key = begin; key < end; key += kKeys) {
    copies.wait();
    __syncthreads();
    if (key + kKeys < end) load(key + kKeys);
    const Bits* const k_tile = reinterpret_cast<const Bits*>(memory[(key - begin) / kKeys % 2]);
    const Bits* const v_tile = k_tile + kKeys * kLead<width>;
    float p[kKeys / 8][4] = {}, dp[kKeys / 8][4] = {};
    add_products<T, width>(
        p, [&](int i) { return q.parts[i]; }, k_tile, at);
    add_products<T, width>(
        dp, [&](int i) { return dy.parts[i]; }, v_tile, at);
    const bool all_seen = scores.are_seen(block.first, kOwn, key, kKeys);
    unsigned kept = 0;
    if constexpr (form != Form::plain)
      kept = kept_of_queries<kKeys / 8>(dropout, at, block.first, key);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[n][i] = differentiate(scores, p[n][i], dp[n][i], statistics[i / 2], factor,
                                factor_of<form>(dropout, kept, n, i), block.first + at.row(i),
                                key + at.column(n, i), all_seen)
                      .dproduct;
    add_rows<T, width>(dq, p, k_tile, at);
  }
  store_rows<form, width>(head_of<T>(x.dq, block.batch, s.queries, s.heads, block.head, s.width),
                          block.first, at, dq, {scale, scale});
}

/// Queries of a tile: as many as shared memory has room for beside 64 keys and values.
template <int width>
constexpr int kQueries = width <= 64 ? 32 : 16;

/// Shared memory of dk and dv: own keys and values, twice queries and dy, twice statistics.
template <int width>
struct KeyTiles {
  static constexpr int kTile = kQueries<width>;
  Bits k[kOwn * kLead<width>], v[kOwn * kLead<width>];
  struct {
    Bits q[kTile * kLead<width>], dy[kTile * kLead<width>];
    Statistics statistics[kTile];
  } stages[2];
};

template <Form form, class T, int width>
__global__ void __launch_bounds__(kThreads)
    differentiate_key_tiles(const __grid_constant__ AttentionShape s, const AttentionGradTensors x,
                            const StepNumbers* step) {
  constexpr int kTile = kQueries<width>;
  auto& tiles = *reinterpret_cast<KeyTiles<width>*>(dynamic_shared());
  const WarpLane at;
  const Block block(s.key_heads, s.keys);
  const auto keys_of = [&](const void* tensor) {
    return head_of<const T>(tensor, block.batch, s.keys, s.key_heads, block.head, s.width);
  };
  Copies<width> copies;
  load_tile<form, width, kOwn>(copies, tiles.k, keys_of(x.k), block.first);
  load_tile<form, width, kOwn>(copies, tiles.v, keys_of(x.v), block.first);

  const float scale = static_cast<float>(s.scale), factor = scale * kLog2E;
  float dk[width / 8][4] = {}, dv[width / 8][4] = {};
  const std::int64_t first_seeing = block.first - s.visible + 1,
                     begin = first_seeing > 0 ? first_seeing / kTile * kTile : 0,
                     behind = block.first + kOwn + s.window - s.visible,
                     end = s.window > 0 && behind < s.queries ? behind : s.queries;
  for (std::int64_t head = block.head * s.group; head < (block.head + 1) * s.group; ++head) {
    const Scores<form> scores{s, x.hidden, block.batch};
    const Dropout dropout(s, step, block.batch, head);
    const auto queries_of = [&](const void* tensor) {
      return head_of<const T>(tensor, block.batch, s.queries, s.heads, head, s.width);
    };
    const auto load = [&](std::int64_t query) {
      auto& to = tiles.stages[query / kTile % 2];
      load_tile<form, width, kTile>(copies, to.q, queries_of(x.q), query);
      load_tile<form, width, kTile>(copies, to.dy, queries_of(x.dy), query);
      if (threadIdx.x < kTile)
        to.statistics[threadIdx.x] = statistics_of(s, x, block, head, query + threadIdx.x);
    };
    __syncthreads();
    if (begin < end) load(begin);
    for (std::int64_t query = begin; query < end; query += kTile) {
      copies.wait();
      __syncthreads();
      if (query + kTile < end) load(query + kTile);
      const auto& from = tiles.stages[query / kTile % 2];
      float p[kTile / 8][4] = {}, dp[kTile / 8][4] = {};
      add_products<T, width>(
          p, [&](int i) { return left_of<width>(tiles.k, at, 16 * i); }, from.q, at);
      add_products<T, width>(
          dp, [&](int i) { return left_of<width>(tiles.v, at, 16 * i); }, from.dy, at);
      const bool all_seen = scores.are_seen(query, kTile, block.first, kOwn);
      unsigned kept = 0;
      if constexpr (form != Form::plain)
        kept = kept_of_keys<kTile / 8>(dropout, at, query, block.first);
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = at.column(n, i);
          const Pair pair = differentiate(scores, p[n][i], dp[n][i], from.statistics[column],
                                          factor, factor_of<form>(dropout, kept, n, i),
                                          query + column, block.first + at.row(i), all_seen);
          p[n][i] = pair.p, dp[n][i] = pair.dproduct;
        }
      add_rows<T, width>(dv, p, from.dy, at);
      add_rows<T, width>(dk, dp, from.q, at);
    }
  }
  copies.wait();  // of own rows, where no query sees them
  const auto results_of = [&](void* tensor) {
    return head_of<T>(tensor, block.batch, s.keys, s.key_heads, block.head, s.width);
  };
  store_rows<form, width>(results_of(x.dk), block.first, at, dk, {scale, scale});
  store_rows<form, width>(results_of(x.dv), block.first, at, dv, {1.0f, 1.0f});
}

std::int64_t blocks_of(std::int64_t batch, std::int64_t heads, std::int64_t rows) {
  return batch * heads * divide_up(rows, kOwn);
}

template <Form value>
using FormOf = std::integral_constant<Form, value>;

/// visit(form, T{}, width) for the padded width of heads; `are_aligned`: all tensors, to 16 bytes.
template <class Visit>
Status with_tiles(const AttentionShape& s, bool are_aligned, const kernels::HiddenKeys& hidden,
                  const Visit& visit) {
  const auto with_width = [&](auto form, auto element) {
    if (s.width <= 64) return visit(form, element, std::integral_constant<int, 64>());
    return visit(form, element, std::integral_constant<int, 128>());
  };
  const auto with_form = [&](auto element) {
    if (s.soft_cap > 0 || hidden.query_segments != nullptr)
      return with_width(FormOf<Form::masked>(), element);
    if (s.width % 8 != 0 || !are_aligned) return with_width(FormOf<Form::general>(), element);
    return s.dropout > 0 ? with_width(FormOf<Form::dropped>(), element)
                         : with_width(FormOf<Form::plain>(), element);
  };
  return s.dtype == DType::bf16 ? with_form(Bf16()) : with_form(F16());
}

bool are_aligned(std::initializer_list<const void*> tensors) {
  for (const void* tensor : tensors)
    if (!aligned16(tensor)) return false;
  return true;
}

}  // namespace

Status run_attention_tiles(const AttentionShape& s, const AttentionTensors& x,
                           const StepNumbers* step, Stream stream) {
  const bool aligned = are_aligned({x.q, x.k, x.v, x.y});
  return with_tiles(s, aligned, x.hidden, [&](auto form, auto element, auto width) {
    return launch(attend_tiles<form.value, decltype(element), width.value>,
                  blocks_of(s.batch, s.heads, s.queries), kThreads, 0, stream, s, x, step);
  });
}

Status run_attention_grad_tiles(const AttentionShape& s, const AttentionGradTensors& x,
                                const StepNumbers* step, Stream stream) {
  const bool aligned = are_aligned({x.dy, x.q, x.k, x.v, x.dq, x.dk, x.dv});
  return with_tiles(s, aligned, x.hidden, [&](auto form, auto element, auto width) {
    using T = decltype(element);
    Status status = launch(differentiate_query_tiles<form.value, T, width.value>,
                           blocks_of(s.batch, s.heads, s.queries), kThreads, 0, stream, s, x, step);
    if (status != cudaSuccess) return status;
    const auto of_keys = differentiate_key_tiles<form.value, T, width.value>;
    constexpr int shared = sizeof(KeyTiles<width.value>);  // more than 48 KB are asked for
    status = cudaFuncSetAttribute(of_keys, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (status != cudaSuccess) return status;
    return launch(of_keys, blocks_of(s.batch, s.key_heads, s.keys), kThreads, shared, stream, s, x,
                  step);
  });
}

}  // namespace alpa::cuda
