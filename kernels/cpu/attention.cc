// kernels/cpu/attention.cc — attention and its gradient in tiles of queries × keys, whose
// probabilities stay in a thread's stack (Dao et al. 2022, FlashAttention). Tiles are fixed by the
// shapes, so results do not depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/draw.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"
#include "kernels/plan/attention_shape.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::AttentionShape;
using kernels::kMostHeadWidth;

constexpr std::int64_t kQueries = 64, kKeys = 128;  ///< of a tile
constexpr std::int64_t kFewQueries = 2;             ///< faster as dot products than as matrices

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

/// Rows [first, first + n) as T, converted into `buffer`.
template <class T>
Panel<T> copied(const HeadRows& rows, std::int64_t first, std::int64_t n, T* buffer) {
  for (std::int64_t i = 0; i < n; ++i)
    load_block(buffer + i * rows.width(), rows.tensor.data, rows.tensor.type.dtype,
               rows.element(first + i), rows.width());
  return {buffer, rows.width()};
}

/// The same, in place if they are stored as T.
template <class T>
Panel<T> panel(const HeadRows& rows, std::int64_t first, std::int64_t n, T* buffer) {
  if (!is_stored_as<T>(rows.tensor.type.dtype)) return copied(rows, first, n, buffer);
  return {rows.tensor.as<T>() + rows.element(first), rows.lead()};
}

/// The same for the right operand of products, whose rows evict each other from the first cache if
/// they are a multiple of 1 KiB apart.
template <class T>
Panel<T> right_panel(const HeadRows& rows, std::int64_t first, std::int64_t n, T* buffer) {
  const bool evict = rows.lead() * static_cast<std::int64_t>(sizeof(T)) % 1024 == 0;
  return evict ? copied(rows, first, n, buffer) : panel(rows, first, n, buffer);
}

template <class T>
Panel<T> transposed(Panel<T> p) {
  p.transposed = true;
  return p;
}

/// Place of a query's number in [B, H, T].
std::int64_t place_of(const AttentionShape& s, std::int64_t row, std::int64_t head,
                      std::int64_t t) {
  return (row * s.heads + head) * s.queries + t;
}

/// Key mask of a row of the batch; null: no mask.
const std::uint8_t* mask_of(const KernelCall& call, std::size_t at, std::int64_t row,
                            std::int64_t keys) {
  return call.inputs.size() <= at ? nullptr : call.inputs[at].as<std::uint8_t>() + row * keys;
}

/// Where a tile is, and what its row sees: query t the keys below t + visible, masks apart.
struct Tile {
  std::int64_t row, head, query, queries, key, keys;
  std::int64_t visible;
  const std::uint8_t* mask;

  bool hides(std::int64_t j) const { return mask != nullptr && mask[key + j] == 0; }
};

/// p · (number ≥ rate) / (1 - rate), for the first n probabilities of line t.
template <class T>
void drop(const KernelCall& call, const AttentionShape& s, const Tile& tile, std::int64_t t, T* p,
          std::int64_t n) {
  double drawn[kKeys];
  const std::int64_t first = s.draws + tile.row * s.draws_of_row + tile.head * s.draws_of_head +
                             (tile.query + t) * s.keys + tile.key;
  const RandomStream stream =
      random_stream(call.step->seed, s.stream, call.step->step, call.step->micro_batch);
  draw_uniform(stream, static_cast<std::uint64_t>(first), drawn, n);
  const T kept = static_cast<T>(1 / (1 - s.dropout));
  for (std::int64_t j = 0; j < n; ++j) p[j] = drawn[j] >= s.dropout ? p[j] * kept : T(0);
}

/// Number of keys that the row's query t sees, masks apart.
std::int64_t seen_of_row(const AttentionShape& s, const Tile& tile, std::int64_t t) {
  return std::clamp<std::int64_t>(t + tile.visible, 0, s.keys);
}

/// The same of those in the tile, for its query t.
std::int64_t seen(const AttentionShape& s, const Tile& tile, std::int64_t t) {
  return std::clamp<std::int64_t>(seen_of_row(s, tile, tile.query + t) - tile.key, 0, tile.keys);
}

// ---- forward

/// Running softmax of the queries of a tile (Milakov & Gimelshein 2018).
template <class T>
struct Running {
  T largest[kQueries], sum[kQueries];
  T values[kQueries * kMostHeadWidth];
};

/// Products to exponentials in one line of a tile; earlier sums are brought to the new maximum.
template <class T>
void add_line(const KernelCall& call, const AttentionShape& s, const Tile& tile, std::int64_t t,
              T* p, Running<T>& running) {
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  const auto& loops_of = loops<T>(isa().attention);
  const std::int64_t n = seen(s, tile, t);
  std::fill(p + n, p + tile.keys, T(0));
  if (n == 0) return;
  if (tile.mask != nullptr)
    for (std::int64_t j = 0; j < n; ++j)
      if (tile.hides(j)) p[j] = kNothing;
  const T scale = static_cast<T>(s.scale);
  const T largest = std::max(
      running.largest[t],
      static_cast<T>(loops<T>(isa().reduce)[static_cast<int>(ReduceOp::max)].line(p, n)) * scale);
  if (largest == kNothing) return std::fill(p, p + n, T(0));
  const T correction = std::exp(running.largest[t] - largest);
  running.largest[t] = largest;
  running.sum[t] = running.sum[t] * correction + loops_of.exponentials(p, scale, largest, n);
  if (correction != 1) loops_of.scale(running.values + t * s.width, correction, s.width);
  if (s.dropout > 0) drop(call, s, tile, t, p, n);
}

/// y of a tile's queries, and lse if it is wanted.
template <class T>
void finish(const KernelCall& call, const AttentionShape& s, const Tile& tile,
            Running<T>& running) {
  const HeadRows out{call.outputs[0], tile.row, tile.head};
  for (std::int64_t t = 0; t < tile.queries; ++t) {
    T* const values = running.values + t * s.width;
    const T sum = running.sum[t];
    loops<T>(isa().attention).scale(values, sum > 0 ? 1 / sum : T(0), s.width);
    store_block(out.tensor.data, s.dtype, out.element(tile.query + t), values, s.width);
    if (s.cached) continue;
    // A query that sees nothing has probabilities exp(x - infinity) = 0 in the gradient.
    call.outputs[1].as<T>()[place_of(s, tile.row, tile.head, tile.query + t)] =
        sum > 0 ? running.largest[t] + std::log(sum) : std::numeric_limits<T>::infinity();
  }
}

/// The first tile of queries [first, first + kQueries) of a head.
Tile first_tile(const KernelCall& call, const AttentionShape& s, std::int64_t row,
                std::int64_t head, std::int64_t first) {
  Tile tile{row, head, first, std::min(kQueries, s.queries - first), 0, 0, s.visible, nullptr};
  if (s.cached)
    tile.visible += call.inputs[3].as<std::int32_t>()[row];
  else
    tile.mask = mask_of(call, 3, row, s.keys);
  return tile;
}

/// p = q kᵀ of a tile.
template <class T>
void multiply_keys(const AttentionShape& s, const Tile& tile, Panel<T> q, Panel<T> k, T* p,
                   bool fixed) {
  if (fixed || tile.queries > kFewQueries)
    return gemm(tile.queries, tile.keys, s.width, q, transposed(k), false, p, kKeys, fixed);
  for (std::int64_t t = 0; t < tile.queries; ++t)
    loops<T>(isa().attention)
        .multiply_keys(p + t * kKeys, q.data + t * q.lead, k.data, k.lead, tile.keys, s.width);
}

/// Adds p v of a tile.
template <class T>
void add_values(const AttentionShape& s, const Tile& tile, const T* p, const HeadRows& rows,
                T* buffer, T* values, bool fixed) {
  if (fixed || tile.queries > kFewQueries) {
    const Panel<T> v = right_panel(rows, tile.key, tile.keys, buffer);
    return gemm(tile.queries, s.width, tile.keys, {p, kKeys}, v, true, values, s.width, fixed);
  }
  const Panel<T> v = panel(rows, tile.key, tile.keys, buffer);
  for (std::int64_t t = 0; t < tile.queries; ++t)
    loops<T>(isa().attention)
        .add_values(values + t * s.width, p + t * kKeys, v.data, v.lead, tile.keys, s.width);
}

/// Queries [first, first + kQueries) of a head.
template <class T>
void run_queries(const KernelCall& call, const AttentionShape& s, std::int64_t row,
                 std::int64_t head, std::int64_t first) {
  T p[kQueries * kKeys], q_buffer[kQueries * kMostHeadWidth], k_buffer[kKeys * kMostHeadWidth];
  Running<T> running;
  std::fill_n(running.largest, kQueries, -std::numeric_limits<T>::infinity());
  std::fill_n(running.sum, kQueries, T(0));
  const std::int64_t key_head = head / s.group;
  Tile tile = first_tile(call, s, row, head, first);
  std::fill_n(running.values, tile.queries * s.width, T(0));
  const Panel<T> q = panel({call.inputs[0], row, head}, first, tile.queries, q_buffer);
  // the last query sees most
  const std::int64_t end = seen_of_row(s, tile, first + tile.queries - 1);
  const bool fixed = call.sums.is_fixed();
  for (; tile.key < end; tile.key += kKeys) {
    tile.keys = std::min(kKeys, end - tile.key);
    const Panel<T> k = panel({call.inputs[1], row, key_head}, tile.key, tile.keys, k_buffer);
    multiply_keys(s, tile, q, k, p, fixed);
    for (std::int64_t t = 0; t < tile.queries; ++t)
      add_line(call, s, tile, t, p + t * kKeys, running);
    add_values(s, tile, p, {call.inputs[2], row, key_head}, k_buffer, running.values, fixed);
  }
  finish(call, s, tile, running);
}

template <class T>
void run_forward(const KernelCall& call, const AttentionShape& s) {
  const std::int64_t blocks = (s.queries + kQueries - 1) / kQueries;
  call.team->parallel_for(s.batch * s.heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i / blocks;
      run_queries<T>(call, s, at / s.heads, at % s.heads, i % blocks * kQueries);
    }
  });
}

void run_forward(const KernelCall& call, const AttentionShape& s) {
  s.dtype == f64 ? run_forward<double>(call, s) : run_forward<float>(call, s);
}

void run_attention(const KernelCall& call) {
  run_forward(call, kernels::attention_shape(call, call.inputs[0], call.inputs[1]));
}

void run_cached_attention(const KernelCall& call) {
  run_forward(call, kernels::cached_attention_shape(call));
}

// ---- gradient

/// Sums of dk and dv over the queries of a block of keys.
template <class T>
struct KeySums {
  T dk[kKeys * kMostHeadWidth], dv[kKeys * kMostHeadWidth];
};

/// Σ dy·y of every query, [B, H, T] at the start of the workspace.
template <class T>
T* deltas(const KernelCall& call) {
  return reinterpret_cast<T*>(call.workspace);
}

/// Where dq is summed over the blocks of keys: in place, or in the workspace in f32.
template <class T>
T* dq_sums(const KernelCall& call, const AttentionShape& s) {
  if (is_stored_as<T>(s.dtype)) return call.outputs[0].as<T>();
  return deltas<T>(call) + s.batch * s.heads * s.queries;
}

template <class T>
void write_deltas(const KernelCall& call, const AttentionShape& s) {
  const auto& sum = loops<T>(isa().reduce)[static_cast<int>(ReduceOp::sum)];
  call.team->parallel_for(s.batch * s.queries, 16, [&](std::int64_t begin, std::int64_t end) {
    T dy[kMostHeadWidth], y[kMostHeadWidth];
    for (std::int64_t i = begin * s.heads; i < end * s.heads; ++i) {
      load_block(dy, call.inputs[0].data, s.dtype, i * s.width, s.width);
      load_block(y, call.inputs[4].data, s.dtype, i * s.width, s.width);
      for (std::int64_t d = 0; d < s.width; ++d) dy[d] *= y[d];
      const std::int64_t query = i / s.heads;
      deltas<T>(call)[place_of(s, query / s.queries, i % s.heads, query % s.queries)] =
          static_cast<T>(sum.line(dy, s.width));
    }
  });
}

/// Products p and dp of line t to probabilities and their gradients.
template <class T>
void probabilities(const KernelCall& call, const AttentionShape& s, const Tile& tile,
                   std::int64_t t, T* p, T* dp) {
  const auto& loops_of = loops<T>(isa().attention);
  const std::int64_t n = seen(s, tile, t);
  const std::int64_t at = place_of(s, tile.row, tile.head, tile.query + t);
  std::fill(p + n, p + tile.keys, T(0));
  std::fill(dp + n, dp + tile.keys, T(0));
  if (n == 0) return;
  const T scale = static_cast<T>(s.scale);
  loops_of.exponentials(p, scale, call.inputs[5].as<T>()[at], n);
  if (tile.mask != nullptr)
    for (std::int64_t j = 0; j < n; ++j)
      if (tile.hides(j)) p[j] = 0;
  if (s.dropout > 0) drop(call, s, tile, t, dp, n);
  loops_of.gradient(dp, p, deltas<T>(call)[at], scale, n);
  if (s.dropout > 0) drop(call, s, tile, t, p, n);
}

/// Adds a tile's share to dq, dk and dv.
template <class T>
void add_tile(const KernelCall& call, const AttentionShape& s, const Tile& tile, Panel<T> k,
              Panel<T> v, KeySums<T>& sums, bool first_of_keys) {
  T p[kQueries * kKeys], dp[kQueries * kKeys];
  T q_buffer[kQueries * kMostHeadWidth], dy_buffer[kQueries * kMostHeadWidth];
  const Panel<T> q = right_panel({call.inputs[1], tile.row, tile.head}, tile.query, tile.queries,
                                 q_buffer),
                 dy = right_panel({call.inputs[0], tile.row, tile.head}, tile.query, tile.queries,
                                  dy_buffer);
  const bool fixed = call.sums.is_fixed();
  gemm(tile.queries, tile.keys, s.width, q, transposed(k), false, p, kKeys, fixed);
  gemm(tile.queries, tile.keys, s.width, dy, transposed(v), false, dp, kKeys, fixed);
  for (std::int64_t t = 0; t < tile.queries; ++t)
    probabilities(call, s, tile, t, p + t * kKeys, dp + t * kKeys);
  const HeadRows dq{call.outputs[0], tile.row, tile.head};
  gemm(tile.queries, s.width, tile.keys, {dp, kKeys}, k, !first_of_keys,
       dq_sums<T>(call, s) + dq.element(tile.query), dq.lead(), fixed);
  gemm(tile.keys, s.width, tile.queries, {p, kKeys, true}, dy, true, sums.dv, s.width, fixed);
  gemm(tile.keys, s.width, tile.queries, {dp, kKeys, true}, q, true, sums.dk, s.width, fixed);
}

/// The query heads of a key head, for keys [key, key + kKeys).
template <class T>
void run_keys(const KernelCall& call, const AttentionShape& s, std::int64_t row,
              std::int64_t key_head, std::int64_t key) {
  T k_buffer[kKeys * kMostHeadWidth], v_buffer[kKeys * kMostHeadWidth];
  KeySums<T> sums;
  const std::int64_t keys = std::min(kKeys, s.keys - key);
  Tile tile{row, 0, 0, 0, key, 0, s.visible, mask_of(call, 6, row, s.keys)};
  std::fill_n(sums.dk, keys * s.width, T(0));
  std::fill_n(sums.dv, keys * s.width, T(0));
  const Panel<T> k = right_panel({call.inputs[2], row, key_head}, key, keys, k_buffer),
                 v = panel({call.inputs[3], row, key_head}, key, keys, v_buffer);
  for (std::int64_t g = 0; g < s.group; ++g) {
    tile.head = key_head * s.group + g;
    for (tile.query = 0; tile.query < s.queries; tile.query += kQueries) {
      tile.queries = std::min(kQueries, s.queries - tile.query);
      // The first block of keys writes dq everywhere, also of queries that see nothing.
      const std::int64_t least = key == 0 ? 1 : 0;
      tile.keys =
          std::clamp(seen_of_row(s, tile, tile.query + tile.queries - 1) - key, least, keys);
      if (tile.keys > 0) add_tile(call, s, tile, k, v, sums, key == 0);
    }
  }
  const HeadRows dk{call.outputs[1], row, key_head}, dv{call.outputs[2], row, key_head};
  for (std::int64_t j = 0; j < keys; ++j) {
    store_block(dk.tensor.data, s.dtype, dk.element(key + j), sums.dk + j * s.width, s.width);
    store_block(dv.tensor.data, s.dtype, dv.element(key + j), sums.dv + j * s.width, s.width);
  }
}

template <class T>
void run_backward(const KernelCall& call, const AttentionShape& s) {
  write_deltas<T>(call, s);
  call.team->parallel_for(s.batch * s.key_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t key = 0; key < s.keys; key += kKeys)
        run_keys<T>(call, s, i / s.key_heads, i % s.key_heads, key);
  });
  if (is_stored_as<T>(s.dtype)) return;
  const T* const sums = dq_sums<T>(call, s);
  call.team->parallel_for(
      call.outputs[0].type.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
        store_block(call.outputs[0].data, s.dtype, begin, sums + begin, end - begin);
      });
}

void run_attention_grad(const KernelCall& call) {
  const AttentionShape s = kernels::attention_shape(call, call.inputs[1], call.inputs[2]);
  s.dtype == f64 ? run_backward<double>(call, s) : run_backward<float>(call, s);
}

/// deltas, and dq in f32, of 16-bit types.
std::int64_t grad_workspace(const KernelCall& call) {
  const TensorType &q = call.inputs[1].type, &lse = call.inputs[5].type;
  const bool is_summed_apart = q.dtype == bf16 || q.dtype == f16;
  const std::int64_t numbers = lse.elements() + (is_summed_apart ? q.elements() : 0);
  return numbers * static_cast<std::int64_t>(size_of(lse.dtype));
}

}  // namespace

const KernelDef attention{run_attention, nullptr, nullptr};
const KernelDef cached_attention{run_cached_attention, nullptr, nullptr};
const KernelDef attention_grad{run_attention_grad, nullptr, grad_workspace};

}  // namespace alpa::cpu
