#pragma once
/// Tiles of keys × queries that attention on the CPU works on: which they are, and what is seen.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/plan/attention_shape.h"

namespace alpa::cpu {

using kernels::AttentionShape;

inline constexpr std::int64_t kTileKeys = 64;

/// Parts of `n` as equal as possible, none larger than `most`.
constexpr std::int64_t parts_of(std::int64_t n, std::int64_t most) { return (n + most - 1) / most; }

/// Where a tile is, and what its row sees: query t the keys below t + visible, of these the last
/// `window` unless that is 0, masks apart.
struct Tile {
  std::int64_t row, head, query, queries, key, keys;
  std::int64_t visible, window;
  kernels::HiddenKeys hidden;  ///< of its row

  bool hides(std::int64_t j) const { return hidden.mask != nullptr && hidden.mask[key + j] == 0; }
  /// Whether query t and key j of the tile are of two segments.
  bool are_apart(std::int64_t t, std::int64_t j) const {
    return hidden.query_segments != nullptr &&
           hidden.query_segments[query + t] != hidden.key_segments[key + j];
  }
  /// Whether all of its queries and keys are of two segments, as far as their least and largest
  /// numbers tell.
  bool is_apart() const {
    if (hidden.query_segments == nullptr || queries == 0 || keys == 0) return false;
    const auto [least_query, largest_query] =
        std::minmax_element(hidden.query_segments + query, hidden.query_segments + query + queries);
    const auto [least_key, largest_key] =
        std::minmax_element(hidden.key_segments + key, hidden.key_segments + key + keys);
    return *largest_query < *least_key || *largest_key < *least_query;
  }
  /// Query t of the tile sees its keys below t + seen().
  std::int64_t seen() const { return query + visible - key; }
  std::int64_t seen_of(std::int64_t t) const {
    return std::clamp<std::int64_t>(t + seen(), 0, keys);
  }
  /// The first of its keys that query t of the tile sees.
  std::int64_t first_seen_of(std::int64_t t) const {
    return window == 0 ? 0 : std::clamp<std::int64_t>(t + seen() - window, 0, keys);
  }
};

/// Number of keys that a query of the row sees, masks apart.
inline std::int64_t seen_of_row(const AttentionShape& s, const Tile& tile, std::int64_t t) {
  return std::clamp<std::int64_t>(t + tile.visible, 0, s.keys);
}

/// Queries of tile i of a head: whole vectors, as equal as possible.
template <class T>
void choose_queries(const AttentionShape& s, std::int64_t i, Tile& tile) {
  const std::int64_t lanes = loops<T>(isa().attention).lanes, vectors = parts_of(s.queries, lanes),
                     tiles = parts_of(s.queries, kTileQueries);
  const auto begin = [&](std::int64_t of) {
    return std::min(s.queries, vectors * of / tiles * lanes);
  };
  tile.query = begin(i);
  tile.queries = begin(i + 1) - tile.query;
}

/// visit(tile) for the blocks of keys that its queries see. The blocks depend on the number of keys
/// alone.
template <class Visit>
void for_keys(const AttentionShape& s, Tile& tile, const Visit& visit) {
  const std::int64_t block = parts_of(s.keys, parts_of(s.keys, kTileKeys)),
                     end = seen_of_row(s, tile, tile.query + tile.queries - 1);
  const std::int64_t first = tile.window == 0 ? 0 : tile.query + tile.visible - tile.window;
  for (tile.key = first > 0 ? first / block * block : 0; tile.key < end; tile.key += block) {
    tile.keys = std::min(block, end - tile.key);
    if (!tile.is_apart()) visit();
  }
}

/// visit(first key, keys, first query): keys, and the vectors of queries that see one of them.
template <class T, class Visit>
void for_seen_keys(const Tile& tile, const Visit& visit) {
  const std::int64_t lanes = loops<T>(isa().attention).lanes;
  for (std::int64_t j = 0, t = 0; j < tile.keys && t < tile.queries; t += lanes) {
    const std::int64_t end = tile.seen_of(t + lanes - 1);
    if (end > j) visit(j, end - j, t);
    j = std::max(j, end);
  }
}

/// visit(first query, queries, keys): queries in whole vectors, and the keys that one of them sees.
template <class T, class Visit>
void for_seeing_queries(const Tile& tile, const Visit& visit) {
  const std::int64_t lanes = loops<T>(isa().attention).lanes;
  for (std::int64_t t = 0, end; t < tile.queries; t = end) {
    const std::int64_t keys = tile.seen_of(t + lanes - 1);
    end = t + lanes;
    while (end < tile.queries && tile.seen_of(end + lanes - 1) == keys) end += lanes;
    end = std::min(end, tile.queries);
    visit(t, end - t, keys);
  }
}

}  // namespace alpa::cpu
