// kernels/cpu/attention.cc — attention and its gradient in tiles of keys × queries, whose
// probabilities stay in a thread's stack (Dao et al. 2022, FlashAttention). Queries are lanes of a
// tile's vectors: maxima and sums run over its lines. Sums run over ascending keys, in blocks that
// the number of keys fixes. So results depend neither on threads nor on a split of queries.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::kMostHeadWidth;

constexpr std::int64_t kFewQueries = 2;  ///< faster as dot products than as tiles

template <class T>
constexpr T kNothing = -std::numeric_limits<T>::infinity();

/// Exponentials are powers of two of scores times this.
constexpr double kLog2E = std::numbers::log2e;

/// Up to whole vectors.
template <class T>
std::int64_t whole_vectors(std::int64_t n) {
  const std::int64_t lanes = loops<T>(isa().attention).lanes;
  return (n + lanes - 1) / lanes * lanes;
}

/// Rows of a tensor [B, N, heads, D] that belong to one head.
struct HeadRows {
  const KernelTensor& tensor;
  std::int64_t row, head;

  std::int64_t lead() const { return tensor.type.shape[2] * tensor.type.shape[3]; }
  std::int64_t width() const { return tensor.type.shape[3]; }
  std::int64_t element(std::int64_t i) const {
    return ((row * tensor.type.shape[1] + i) * tensor.type.shape[2] + head) * width();
  }
};

/// Rows [first, first + n) as T, in lines of whole vectors, the last one with zeros.
template <class T>
void copy_rows(const HeadRows& rows, std::int64_t first, std::int64_t n, T* to) {
  const KernelTensor& tensor = rows.tensor;
  const std::int64_t width = rows.width(), lead = whole_vectors<T>(width);
  if (is_stored_as<T>(tensor.type.dtype))
    return loops<T>(isa().attention)
        .copy(to, lead, tensor.as<T>() + rows.element(first), rows.lead(), n, width, lead);
  for (std::int64_t i = first; i < first + n; ++i, to += lead) {
    load_block(to, tensor.data, tensor.type.dtype, rows.element(i), width);
    std::fill(to + width, to + lead, T(0));
  }
}

/// The reverse.
template <class T>
void store_rows(const T* from, const HeadRows& rows, std::int64_t first, std::int64_t n) {
  const KernelTensor& tensor = rows.tensor;
  const std::int64_t width = rows.width(), lead = whole_vectors<T>(width);
  if (is_stored_as<T>(tensor.type.dtype))
    return loops<T>(isa().attention)
        .copy(tensor.as<T>() + rows.element(first), rows.lead(), from, lead, n, width, width);
  for (std::int64_t i = first; i < first + n; ++i, from += lead)
    store_block(tensor.data, tensor.type.dtype, rows.element(i), from, width);
}

/// Rows [first, first + n) as T, in place if they are stored so.
template <class T>
Panel<T> panel(const HeadRows& rows, std::int64_t first, std::int64_t n, T* buffer) {
  if (is_stored_as<T>(rows.tensor.type.dtype))
    return {rows.tensor.as<T>() + rows.element(first), rows.lead()};
  const std::int64_t lead = whole_vectors<T>(rows.width());
  copy_rows(rows, first, n, buffer);
  return {buffer, lead};
}

/// Tasks of a call in slots that each have a part of the workspace, where rows of keys lie side by
/// side: in [B, S, K, D] they are far apart, and evict each other from caches.
struct Slots {
  std::int64_t tasks, count;

  Slots(std::int64_t n, int threads)
      : tasks(n), count(std::min<std::int64_t>(n, threads * ThreadTeam::kSlicesPerThread)) {}
  std::int64_t begin(std::int64_t slot) const { return tasks * slot / count; }
};

/// Elements of `arrays` arrays [S, D] in lines of the widest vectors.
std::int64_t slot_elements(const AttentionShape& s, int arrays) {
  const std::int64_t lane =
      kVectorBytes / static_cast<std::int64_t>(size_of(s.dtype == f64 ? f64 : f32));
  return arrays * s.keys * ((s.width + lane - 1) / lane * lane);
}

std::int64_t slot_bytes(const AttentionShape& s, const Slots& slots, int arrays) {
  return slots.count * slot_elements(s, arrays) *
         static_cast<std::int64_t>(size_of(s.dtype == f64 ? f64 : f32));
}

/// visit(begin, end, a slot's memory) for ranges of tasks, by the team.
template <class T, class Visit>
void for_tasks(const KernelCall& call, const AttentionShape& s, const Slots& slots, int arrays,
               const Visit& visit) {
  call.team->for_each(slots.count, 1, [&](std::int64_t slot) {
    visit(slots.begin(slot), slots.begin(slot + 1),
          reinterpret_cast<T*>(call.workspace) + slot * slot_elements(s, arrays));
  });
}

/// Place of a query's number in [B, H, T].
std::int64_t place_of(const AttentionShape& s, std::int64_t row, std::int64_t head,
                      std::int64_t t) {
  return (row * s.heads + head) * s.queries + t;
}

/// scores [keys, kTileQueries] = rows · columns, where a query sees a key.
template <class T>
void multiply_scores(const Tile& tile, Panel<T> rows, std::int64_t width, const T* columns,
                     T* scores) {
  for_seen_keys<T>(tile, [&](std::int64_t j, std::int64_t n, std::int64_t t) {
    loops<T>(isa().attention)
        .product({n, whole_vectors<T>(tile.queries) - t, width, rows.data + j * rows.lead,
                  rows.lead, 1, columns + t, kTileQueries, scores + j * kTileQueries + t,
                  kTileQueries, false});
  });
}

/// Scores that a query doesn't see, in vectors that others see, become minus infinity.
template <class T>
void hide_scores(const Tile& tile, T* scores) {
  const std::int64_t queries = whole_vectors<T>(tile.queries);
  const bool all_seen = tile.seen() >= tile.keys && tile.first_seen_of(queries - 1) == 0;
  if (all_seen && tile.hidden.mask == nullptr && tile.hidden.query_segments == nullptr) return;
  for_seen_keys<T>(tile, [&](std::int64_t first, std::int64_t n, std::int64_t t) {
    for (std::int64_t j = first; j < first + n; ++j) {
      const std::int64_t hidden = tile.hides(j) ? kTileQueries : j + 1 - tile.seen();
      for (std::int64_t i = t; i < hidden; ++i) scores[j * kTileQueries + i] = kNothing<T>;
      if (tile.window > 0)
        for (std::int64_t i = std::max(t, j + 1 + tile.window - tile.seen()); i < queries; ++i)
          scores[j * kTileQueries + i] = kNothing<T>;
      if (tile.hidden.query_segments == nullptr) continue;
      for (std::int64_t i = t; i < tile.queries; ++i)
        if (tile.are_apart(i, j)) scores[j * kTileQueries + i] = kNothing<T>;
    }
  });
}

/// sums [queries, lead] += pᵀ rows.
template <class T>
void add_to_queries(const Tile& tile, const T* p, Panel<T> rows, T* sums) {
  for_seeing_queries<T>(tile, [&](std::int64_t t, std::int64_t n, std::int64_t keys) {
    loops<T>(isa().attention)
        .product({n, rows.lead, keys, p + t, 1, kTileQueries, rows.data, rows.lead,
                  sums + t * rows.lead, rows.lead, true});
  });
}

template <class T>
ScoreTile<T> score_tile(const Tile& tile, T* scores) {
  return {scores, whole_vectors<T>(tile.queries), tile.keys, tile.seen()};
}

/// Scores, in powers of two, to those of the soft cap, if there is one. `slopes`, unless null,
/// become its derivatives.
template <class T>
void cap_scores(const AttentionShape& s, const Tile& tile, T* scores, T* slopes) {
  if (s.soft_cap > 0)
    loops<T>(isa().attention)
        .soft_cap(score_tile(tile, scores), static_cast<T>(s.soft_cap * kLog2E), slopes);
}

/// 1 / (1 - rate) where the number drawn is at least the rate, else 0: for a line of a tile's
/// probabilities, those of query t.
template <class T>
void draw_kept(const KernelCall& call, const AttentionShape& s, const Tile& tile, std::int64_t t,
               std::int64_t n, T* kept) {
  double drawn[kTileKeys];
  const std::int64_t first = s.draws + tile.row * s.draws_of_row + tile.head * s.draws_of_head +
                             (tile.query + t) * s.keys + tile.key;
  const RandomStream stream =
      random_stream(call.step->seed, s.stream, call.step->step, call.step->micro_batch);
  draw_uniform(stream, static_cast<std::uint64_t>(first), drawn, n);
  const T factor = static_cast<T>(1 / (1 - s.dropout));
  for (std::int64_t j = 0; j < n; ++j) kept[j] = drawn[j] >= s.dropout ? factor : T(0);
}

/// The same of the whole tile.
template <class T>
void draw_tile(const KernelCall& call, const AttentionShape& s, const Tile& tile, T* kept) {
  T line[kTileKeys];
  for (std::int64_t t = 0; t < tile.queries; ++t) {
    const std::int64_t n = tile.seen_of(t);
    draw_kept(call, s, tile, t, n, line);
    for (std::int64_t j = 0; j < n; ++j) kept[j * kTileQueries + t] = line[j];
  }
}

/// Probabilities, or gradients of scores, times what belongs to each.
template <class T>
void multiply_seen(const Tile& tile, const T* factors, T* p) {
  for (std::int64_t t = 0; t < tile.queries; ++t)
    for (std::int64_t j = 0; j < tile.seen_of(t); ++j)
      p[j * kTileQueries + t] *= factors[j * kTileQueries + t];
}

// ---- forward

/// Running softmax of the queries of a tile (Milakov & Gimelshein 2018).
template <class T>
struct Running {
  alignas(kVectorBytes) T largest[kTileQueries], sum[kTileQueries], correction[kTileQueries];
  alignas(kVectorBytes) T values[kTileQueries * kMostHeadWidth];  ///< in lines of whole vectors

  Running(std::int64_t queries, std::int64_t lead) {
    std::fill_n(largest, kTileQueries, kNothing<T>);
    std::fill_n(sum, kTileQueries, T(0));
    std::fill_n(values, queries * lead, T(0));
  }
};

/// y of a tile's queries, and lse if it is wanted.
template <class T>
void finish(const KernelCall& call, const AttentionShape& s, const Tile& tile,
            Running<T>& running) {
  const HeadRows out{call.outputs[0], tile.row, tile.head};
  const std::int64_t lead = whole_vectors<T>(s.width);
  alignas(kVectorBytes) T inverse[kTileQueries], lse[kTileQueries];
  const auto& loops_of = loops<T>(isa().attention);
  loops_of.finish(running.largest, running.sum, whole_vectors<T>(tile.queries), inverse, lse);
  loops_of.scale(running.values, inverse, tile.queries, lead);
  store_rows(running.values, out, tile.query, tile.queries);
  // A query that sees nothing has probabilities exp(x - infinity) = 0 in the gradient.
  if (!s.cached)
    std::copy_n(lse, tile.queries,
                call.outputs[1].as<T>() + place_of(s, tile.row, tile.head, tile.query));
}

/// A tile of a head, without its queries and keys. `masks`: the first operand that hides keys.
Tile tile_of_head(const KernelCall& call, const AttentionShape& s, std::int64_t row,
                  std::int64_t head, std::size_t masks) {
  Tile tile{row, head, 0, 0, 0, 0, s.visible, s.window, {}};
  if (s.cached) {
    tile.visible += call.inputs[3].as<std::int32_t>()[row];
    return tile;
  }
  tile.hidden = kernels::hidden_keys(call, masks);
  if (tile.hidden.mask != nullptr) tile.hidden.mask += row * s.keys;
  if (tile.hidden.query_segments != nullptr) {
    tile.hidden.query_segments += row * s.queries;
    tile.hidden.key_segments += row * s.keys;
  }
  return tile;
}

/// Rows of a tile's queries, and the same transposed and scaled; zeros behind the last one.
template <class T>
void load_queries(const KernelTensor& x, const Tile& tile, double factor, T* rows, T* columns) {
  const std::int64_t lead = whole_vectors<T>(x.type.shape[3]),
                     lines = whole_vectors<T>(tile.queries);
  copy_rows({x, tile.row, tile.head}, tile.query, tile.queries, rows);
  std::fill(rows + tile.queries * lead, rows + lines * lead, T(0));
  loops<T>(isa().attention).transpose(columns, rows, lines, lead, static_cast<T>(factor));
}

/// Keys and values [first, end) of a key head, side by side.
template <class T>
struct KeyCache {
  T *k, *v;
  std::int64_t row = -1, head = -1, first = 0, end = 0;

  /// Makes the range hold keys [from, to) of a head, too. Tiles may ask for earlier keys than those
  /// before them: padding sees others than the document before it, and the next head of a group
  /// begins anew.
  void load(const KernelTensor& from_k, const KernelTensor& from_v, std::int64_t of_row,
            std::int64_t of_head, std::int64_t from, std::int64_t to) {
    if (row != of_row || head != of_head) row = of_row, head = of_head, first = end = from;
    const auto copy = [&](std::int64_t begin, std::int64_t until) {
      if (begin >= until) return;
      const std::int64_t lead = whole_vectors<T>(from_k.type.shape[3]);
      copy_rows({from_k, row, head}, begin, until - begin, k + begin * lead);
      copy_rows({from_v, row, head}, begin, until - begin, v + begin * lead);
    };
    copy(from, first), copy(end, to);
    first = std::min(first, from), end = std::max(end, to);
  }
};

/// The values of a tile of queries.
template <class T>
void run_tile(const KernelCall& call, const AttentionShape& s, Tile& tile, KeyCache<T>& cache) {
  alignas(kVectorBytes) T scores[kTileKeys * kTileQueries];
  alignas(kVectorBytes) T columns[kMostHeadWidth * kTileQueries];
  alignas(kVectorBytes) T buffer[kMostHeadWidth * kTileQueries];  // of q, or what dropout keeps
  const auto& loops_of = loops<T>(isa().attention);
  const std::int64_t lead = whole_vectors<T>(s.width);
  Running<T> running(tile.queries, lead);
  load_queries(call.inputs[0], tile, s.scale * kLog2E, buffer, columns);
  for_keys(s, tile, [&] {
    cache.load(call.inputs[1], call.inputs[2], tile.row, tile.head / s.group, tile.key,
               tile.key + tile.keys);
    multiply_scores(tile, {cache.k + tile.key * lead, lead}, s.width, columns, scores);
    cap_scores<T>(s, tile, scores, nullptr);
    hide_scores(tile, scores);
    loops_of.softmax(score_tile(tile, scores), running.largest, running.sum, running.correction);
    if (s.dropout > 0) {
      draw_tile(call, s, tile, buffer);
      multiply_seen(tile, buffer, scores);
    }
    if (tile.key > 0) loops_of.scale(running.values, running.correction, tile.queries, lead);
    add_to_queries(tile, scores, {cache.v + tile.key * lead, lead}, running.values);
  });
  finish(call, s, tile, running);
}

/// Products to exponentials in query t's line of a block of keys.
template <class T>
void add_line(const KernelCall& call, const AttentionShape& s, const Tile& tile, std::int64_t t,
              T* p, Running<T>& running) {
  const auto& loops_of = loops<T>(isa().attention);
  const std::int64_t n = tile.seen_of(t);
  std::fill(p + n, p + tile.keys, T(0));
  if (n == 0) return;
  if (s.soft_cap > 0)
    for (std::int64_t j = 0; j < n; ++j)
      p[j] = static_cast<T>(s.soft_cap / s.scale) *
             std::tanh(p[j] * static_cast<T>(s.scale / s.soft_cap));
  for (std::int64_t j = 0; j < n; ++j)
    if (tile.hides(j) || j < tile.first_seen_of(t) || tile.are_apart(t, j)) p[j] = kNothing<T>;
  const T scale = static_cast<T>(s.scale * kLog2E);
  const T largest = std::max(
      running.largest[t],
      static_cast<T>(loops<T>(isa().reduce)[static_cast<int>(ReduceOp::max)].line(p, n)) * scale);
  if (largest == kNothing<T>) return std::fill(p, p + n, T(0));
  const T correction = std::exp2(running.largest[t] - largest);
  const std::int64_t lead = whole_vectors<T>(s.width);
  running.largest[t] = largest;
  running.sum[t] = running.sum[t] * correction + loops_of.exponentials(p, scale, largest, n);
  loops_of.scale(running.values + t * lead, &correction, 1, lead);
  if (s.dropout == 0) return;
  T kept[kTileKeys];
  draw_kept(call, s, tile, t, n, kept);
  for (std::int64_t j = 0; j < n; ++j) p[j] *= kept[j];
}

/// The values of few queries, line by line.
template <class T>
void run_lines(const KernelCall& call, const AttentionShape& s, Tile& tile) {
  const auto& loops_of = loops<T>(isa().attention);
  T p[kTileKeys], q_buffer[kFewQueries * kMostHeadWidth], buffer[kTileKeys * kMostHeadWidth];
  const std::int64_t key_head = tile.head / s.group, lead = whole_vectors<T>(s.width);
  Running<T> running(tile.queries, lead);
  const Panel<T> q =
      panel({call.inputs[0], tile.row, tile.head}, tile.query, tile.queries, q_buffer);
  for_keys(s, tile, [&] {
    for (std::int64_t t = 0; t < tile.queries; ++t) {
      const Panel<T> k = panel({call.inputs[1], tile.row, key_head}, tile.key, tile.keys, buffer);
      loops_of.multiply_keys(p, q.data + t * q.lead, k.data, k.lead, tile.keys, s.width);
      add_line(call, s, tile, t, p, running);
      const Panel<T> v = panel({call.inputs[2], tile.row, key_head}, tile.key, tile.keys, buffer);
      loops_of.add_values(running.values + t * lead, p, v.data, v.lead, tile.keys, s.width);
    }
  });
  finish(call, s, tile, running);
}

std::int64_t tiles_of(const AttentionShape& s) { return parts_of(s.queries, kTileQueries); }

/// Tiles of queries, key head by key head.
Slots forward_slots(const KernelCall& call, const AttentionShape& s) {
  return {s.batch * s.heads * tiles_of(s), call.threads};
}

/// Sums of few queries have another order.
bool runs_lines(const KernelCall& call, const AttentionShape& s) {
  return s.queries <= kFewQueries && !call.sums.is_fixed();
}

template <class T>
void run_forward(const KernelCall& call, const AttentionShape& s) {
  const std::int64_t tiles = tiles_of(s);
  for_tasks<T>(
      call, s, forward_slots(call, s), 2, [&](std::int64_t begin, std::int64_t end, T* memory) {
        KeyCache<T> cache{memory, memory + slot_elements(s, 1)};
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t head = i / tiles;
          Tile tile = tile_of_head(call, s, head / s.heads, head % s.heads, 3);
          choose_queries<T>(s, i % tiles, tile);
          runs_lines(call, s) ? run_lines<T>(call, s, tile) : run_tile<T>(call, s, tile, cache);
        }
      });
}

void run_forward(const KernelCall& call, const AttentionShape& s) {
  s.dtype == f64 ? run_forward<double>(call, s) : run_forward<float>(call, s);
}

std::int64_t forward_workspace(const KernelCall& call, const AttentionShape& s) {
  return runs_lines(call, s) ? 0 : slot_bytes(s, forward_slots(call, s), 2);
}

void run_attention(const KernelCall& call) {
  run_forward(call, kernels::attention_shape(call, call.inputs[0], call.inputs[1]));
}

void run_cached_attention(const KernelCall& call) {
  run_forward(call, kernels::cached_attention_shape(call));
}

std::int64_t attention_workspace(const KernelCall& call) {
  return forward_workspace(call, kernels::attention_shape(call, call.inputs[0], call.inputs[1]));
}

std::int64_t cached_attention_workspace(const KernelCall& call) {
  return forward_workspace(call, kernels::cached_attention_shape(call));
}

// ---- gradient

/// A key head's rows and sums over its queries, side by side, in lines of whole vectors.
template <class T>
struct KeyHead {
  T *k, *v, *dk, *dv;

  KeyHead(const AttentionShape& s, T* memory)
      : k(memory),
        v(k + slot_elements(s, 1)),
        dk(v + slot_elements(s, 1)),
        dv(dk + slot_elements(s, 1)) {}
};

/// What the gradient reads of a tile's queries, and sums up for them.
template <class T>
struct QueryTile {
  alignas(kVectorBytes) T q[kTileQueries * kMostHeadWidth], dy[kTileQueries * kMostHeadWidth];
  alignas(kVectorBytes) T q_columns[kMostHeadWidth * kTileQueries],
      dy_columns[kMostHeadWidth * kTileQueries];
  alignas(kVectorBytes) T dq[kTileQueries * kMostHeadWidth];
  alignas(kVectorBytes) T shift[kTileQueries], delta[kTileQueries];
};

template <class T>
void load(const KernelCall& call, const AttentionShape& s, const Tile& tile,
          QueryTile<T>& queries) {
  load_queries(call.inputs[1], tile, s.scale * kLog2E, queries.q, queries.q_columns);
  load_queries(call.inputs[0], tile, s.scale, queries.dy, queries.dy_columns);
  const std::int64_t lead = whole_vectors<T>(s.width);
  copy_rows({call.inputs[4], tile.row, tile.head}, tile.query, tile.queries, queries.dq);
  std::fill_n(queries.delta, kTileQueries, T(0));
  loops<T>(isa().attention)
      .multiply_rows(queries.delta, queries.dy, queries.dq, tile.queries, lead,
                     static_cast<T>(s.scale));
  std::fill_n(queries.dq, tile.queries * lead, T(0));
  std::fill_n(queries.shift, kTileQueries, T(0));
  const T* const lse = call.inputs[5].as<T>() + place_of(s, tile.row, tile.head, tile.query);
  for (std::int64_t t = 0; t < tile.queries; ++t)
    queries.shift[t] = lse[t] * static_cast<T>(kLog2E);
}

/// sums [keys, lead] += p [keys, kTileQueries] rows, of queries that see a key.
template <class T>
void add_to_keys(const Tile& tile, const T* p, Panel<T> rows, T* sums) {
  for_seen_keys<T>(tile, [&](std::int64_t j, std::int64_t n, std::int64_t t) {
    loops<T>(isa().attention)
        .product({n, rows.lead, tile.queries - t, p + j * kTileQueries + t, kTileQueries, 1,
                  rows.data + t * rows.lead, rows.lead, sums + j * rows.lead, rows.lead, true});
  });
}

/// Adds a tile's share to dq, dk and dv.
template <class T>
void add_tile(const KernelCall& call, const AttentionShape& s, const Tile& tile,
              QueryTile<T>& queries, const KeyHead<T>& keys) {
  alignas(kVectorBytes) T p[kTileKeys * kTileQueries], dp[kTileKeys * kTileQueries];
  alignas(kVectorBytes) T kept[kTileKeys * kTileQueries], slopes[kTileKeys * kTileQueries];
  const std::int64_t lead = whole_vectors<T>(s.width), at = tile.key * lead;
  multiply_scores(tile, {keys.k + at, lead}, s.width, queries.q_columns, p);
  multiply_scores(tile, {keys.v + at, lead}, s.width, queries.dy_columns, dp);
  cap_scores<T>(s, tile, p, slopes);
  hide_scores(tile, p);
  if (s.dropout > 0) {
    draw_tile(call, s, tile, kept);
    multiply_seen(tile, kept, dp);
  }
  loops<T>(isa().attention).gradient(score_tile(tile, p), dp, queries.shift, queries.delta);
  if (s.dropout > 0) multiply_seen(tile, kept, p);
  if (s.soft_cap > 0) multiply_seen(tile, slopes, dp);
  add_to_queries(tile, dp, {keys.k + at, lead}, queries.dq);
  add_to_keys(tile, dp, {queries.q, lead}, keys.dk + at);
  add_to_keys(tile, p, {queries.dy, lead}, keys.dv + at);
}

/// The query heads of a key head.
template <class T>
void run_key_head(const KernelCall& call, const AttentionShape& s, std::int64_t row,
                  std::int64_t key_head, const KeyHead<T>& keys) {
  QueryTile<T> queries;
  const std::int64_t lead = whole_vectors<T>(s.width);
  copy_rows({call.inputs[2], row, key_head}, 0, s.keys, keys.k);
  copy_rows({call.inputs[3], row, key_head}, 0, s.keys, keys.v);
  std::fill_n(keys.dk, s.keys * lead, T(0));
  std::fill_n(keys.dv, s.keys * lead, T(0));
  for (std::int64_t head = key_head * s.group; head < (key_head + 1) * s.group; ++head)
    for (std::int64_t i = 0; i < tiles_of(s); ++i) {
      Tile tile = tile_of_head(call, s, row, head, 6);
      choose_queries<T>(s, i, tile);
      load(call, s, tile, queries);
      for_keys(s, tile, [&] { add_tile(call, s, tile, queries, keys); });
      store_rows(queries.dq, {call.outputs[0], row, head}, tile.query, tile.queries);
    }
  store_rows(keys.dk, {call.outputs[1], row, key_head}, 0, s.keys);
  store_rows(keys.dv, {call.outputs[2], row, key_head}, 0, s.keys);
}

Slots backward_slots(const KernelCall& call, const AttentionShape& s) {
  return {s.batch * s.key_heads, call.threads};
}

template <class T>
void run_backward(const KernelCall& call, const AttentionShape& s) {
  for_tasks<T>(call, s, backward_slots(call, s), 4,
               [&](std::int64_t begin, std::int64_t end, T* memory) {
                 for (std::int64_t i = begin; i < end; ++i)
                   run_key_head<T>(call, s, i / s.key_heads, i % s.key_heads, {s, memory});
               });
}

void run_attention_grad(const KernelCall& call) {
  const AttentionShape s = kernels::attention_shape(call, call.inputs[1], call.inputs[2]);
  s.dtype == f64 ? run_backward<double>(call, s) : run_backward<float>(call, s);
}

std::int64_t grad_workspace(const KernelCall& call) {
  const AttentionShape s = kernels::attention_shape(call, call.inputs[1], call.inputs[2]);
  return slot_bytes(s, backward_slots(call, s), 4);
}

}  // namespace

const KernelDef attention{run_attention, nullptr, attention_workspace};
const KernelDef cached_attention{run_cached_attention, nullptr, cached_attention_workspace};
const KernelDef attention_grad{run_attention_grad, nullptr, grad_workspace};

}  // namespace alpa::cpu
