// src/data/packed.cc — examples in rows of tokens, by first fit
#include <algorithm>
#include <span>

#include "alpa/base/error.h"
#include "alpa/data/text.h"
#include "src/base/fnv.h"

namespace alpa {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kIgnored = -1;

/// The columns of a row, one behind the other.
struct PackedRow {
  Ids tokens, labels, segments, positions;
  std::int32_t documents = 0;
};

/// Rows with room, by how much: the first of them that a piece fits into is found in steps of the
/// logarithm of their number.
class FirstFit {
 public:
  /// Rows of `length` tokens, at most `count` of them.
  FirstFit(std::int64_t length, std::size_t count) {
    while (leaves_ < count) leaves_ *= 2;
    most_.assign(2 * leaves_, length);
  }
  /// The first row with room for so many tokens, which are then taken.
  std::size_t take(std::int64_t tokens) {
    std::size_t at = 1;
    while (at < leaves_) at = most_[2 * at] >= tokens ? 2 * at : 2 * at + 1;
    const std::size_t row = at - leaves_;
    most_[at] -= tokens;
    while (at /= 2) most_[at] = std::max(most_[2 * at], most_[2 * at + 1]);
    return row;
  }

 private:
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> most_;  ///< room of rows at the leaves, above them the larger of two
};

/// Tokens `begin` to `end` of an example, of which all but the first may be labels.
struct Piece {
  const TextExample& example;
  std::size_t begin, end;

  std::size_t labels() const { return end - begin - 1; }
  bool learns(std::size_t token) const { return example.learnt.empty() || example.learnt[token]; }
  bool learns_any() const {
    for (std::size_t i = begin + 1; i < end; ++i)
      if (learns(i)) return true;
    return false;
  }
};

void add_piece(PackedRow& row, const Piece& piece) {
  ++row.documents;
  for (std::size_t i = 0; i < piece.labels(); ++i) {
    const std::size_t token = piece.begin + i;
    row.tokens.push_back(piece.example.tokens[token]);
    row.labels.push_back(piece.learns(token + 1) ? piece.example.tokens[token + 1] : kIgnored);
    row.segments.push_back(row.documents);
    row.positions.push_back(static_cast<std::int32_t>(i));
  }
}

/// visit(piece) for the pieces of examples that have labels to learn.
template <class Visit>
void for_pieces(const std::vector<TextExample>& examples, std::int64_t length, const Visit& visit) {
  const auto most = static_cast<std::size_t>(length);
  for (const TextExample& example : examples) {
    const std::size_t size = example.tokens.size();
    require(example.learnt.empty() || example.learnt.size() == size,
            "packed_batches: an example has {} tokens, but says of {} whether they are learnt",
            size, example.learnt.size());
    for (std::size_t at = 0; at + 1 < size; at += most) {
      const Piece piece{example, at, std::min(size, at + most + 1)};
      if (piece.learns_any()) visit(piece);
    }
  }
}

std::vector<PackedRow> packed_rows(const std::vector<TextExample>& examples, std::int64_t length) {
  std::size_t pieces = 0;
  for_pieces(examples, length, [&](const Piece&) { ++pieces; });
  require(pieces > 0, "packed_batches: no document has two tokens or more of which one is learnt");
  FirstFit rooms(length, pieces);
  std::vector<PackedRow> rows;
  for_pieces(examples, length, [&](const Piece& piece) {
    const std::size_t row = rooms.take(static_cast<std::int64_t>(piece.labels()));
    if (row >= rows.size()) rows.resize(row + 1);
    add_piece(rows[row], piece);
  });
  for (PackedRow& row : rows) {
    const auto whole = static_cast<std::size_t>(length);
    row.tokens.resize(whole, 0), row.labels.resize(whole, kIgnored);
    row.segments.resize(whole, 0), row.positions.resize(whole, 0);
  }
  return rows;
}

Array column_of(const std::vector<PackedRow>& rows, std::span<const std::int64_t> chosen,
                Ids PackedRow::*column) {
  Ids values;
  for (std::int64_t row : chosen) {
    const Ids& of_row = rows[static_cast<std::size_t>(row)].*column;
    values.insert(values.end(), of_row.begin(), of_row.end());
  }
  const auto count = static_cast<std::int64_t>(chosen.size());
  return Array(
      values, {count, static_cast<std::int64_t>(values.size()) / std::max<std::int64_t>(1, count)});
}

std::uint64_t hash_of(const std::vector<PackedRow>& rows) {
  std::uint64_t hash = fnv1a("packed documents");
  for (const PackedRow& row : rows)
    for (const Ids* column : {&row.tokens, &row.labels, &row.segments})
      hash = fnv1a(
          {reinterpret_cast<const char*>(column->data()), column->size() * sizeof(Ids::value_type)},
          hash);
  return hash;
}

}  // namespace

Batches packed_batches(const std::vector<TextExample>& examples, std::int64_t batch,
                       std::int64_t length, std::optional<std::uint64_t> seed,
                       BatchOptions options) {
  require(length >= 1, "packed_batches: rows of {} tokens; give at least 1", length);
  const auto rows = std::make_shared<const std::vector<PackedRow>>(packed_rows(examples, length));
  require(!options.drop_last || std::ssize(*rows) >= batch,
          "packed_batches: {} documents fill {} rows of {} tokens, less than a batch of {}; give a "
          "smaller batch, or shorter rows",
          examples.size(), rows->size(), length, batch);
  if (!options.hash) options.hash = [rows] { return hash_of(*rows); };
  const auto load = [rows](std::span<const std::int64_t> chosen) -> BatchData {
    return {{"tokens", column_of(*rows, chosen, &PackedRow::tokens)},
            {"labels", column_of(*rows, chosen, &PackedRow::labels)},
            {"segments", column_of(*rows, chosen, &PackedRow::segments)},
            {"positions", column_of(*rows, chosen, &PackedRow::positions)}};
  };
  return Batches(std::ssize(*rows), load, batch, seed, std::move(options));
}

}  // namespace alpa
