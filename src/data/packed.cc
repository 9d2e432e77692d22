// src/data/packed.cc — examples in rows of tokens, by first fit
#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include "alpa/base/error.h"
#include "alpa/data/text.h"
#include "src/base/fnv.h"

namespace alpa {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kIgnored = -1;

/// The columns of a row of `length` tokens, one behind the other.
struct PackedRow {
  std::int64_t length;
  Ids tokens = {}, labels = {}, segments = {}, positions = {};
  std::int32_t documents = 0;
};

/// Rows with room, by how much: the first of them that a piece fits into is found in steps of the
/// logarithm of their number.
class FirstFit {
 public:
  /// At most `count` rows, as yet without room.
  explicit FirstFit(std::size_t count) {
    while (leaves_ < count) leaves_ *= 2;
    most_.resize(2 * leaves_);
  }
  /// Rows from `first` on are empty, with room for `length` tokens.
  void open(std::size_t first, std::int64_t length) {
    std::fill(most_.begin() + static_cast<std::ptrdiff_t>(leaves_ + first), most_.end(), length);
    for (std::size_t at = leaves_; --at > 0;)
      most_[at] = std::max(most_[2 * at], most_[2 * at + 1]);
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

/// Rows of the longest of `lengths` (ascending) first; of each, a multiple of `multiple`.
std::vector<PackedRow> packed_rows(const std::vector<TextExample>& examples,
                                   const std::vector<std::int64_t>& lengths,
                                   std::int64_t multiple) {
  std::size_t pieces = 0;
  for_pieces(examples, lengths.back(), [&](const Piece&) { ++pieces; });
  require(pieces > 0, "packed_batches: no document has two tokens or more of which one is learnt");
  require(multiple <= static_cast<std::int64_t>(pieces),
          "bucketed_batches: a batch of {} rows, but the documents are {} pieces of at most {} "
          "tokens; give a smaller batch",
          multiple, pieces, lengths.back());
  FirstFit rooms(pieces + lengths.size() * static_cast<std::size_t>(multiple));
  std::vector<PackedRow> rows;
  for (std::size_t i = lengths.size(); i-- > 0;) {
    const std::int64_t length = lengths[i], shorter = i > 0 ? lengths[i - 1] : 0;
    rooms.open(rows.size(), length);
    for_pieces(examples, lengths.back(), [&](const Piece& piece) {
      const auto labels = static_cast<std::int64_t>(piece.labels());
      if (labels > length || labels <= shorter) return;
      const std::size_t row = rooms.take(labels);
      if (row >= rows.size()) rows.resize(row + 1, {length});
      add_piece(rows[row], piece);
    });
    const auto parts = static_cast<std::size_t>(multiple);
    rows.resize((rows.size() + parts - 1) / parts * parts, {length});
  }
  for (PackedRow& row : rows) {
    const auto whole = static_cast<std::size_t>(row.length);
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

std::uint64_t hash_of(const std::vector<PackedRow>& rows, std::uint64_t hash) {
  for (const PackedRow& row : rows)
    for (const Ids* column : {&row.tokens, &row.labels, &row.segments})
      hash = fnv1a(
          {reinterpret_cast<const char*>(column->data()), column->size() * sizeof(Ids::value_type)},
          hash);
  return hash;
}

/// The rows shuffled among those of their length, in batches that are shuffled too. The number of
/// rows of each length is a multiple of `batch`, and longer ones come first.
std::vector<std::int64_t> bucketed_order(const std::vector<PackedRow>& rows, std::int64_t batch,
                                         std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> grouped = shuffled_indices(std::ssize(rows), seed, epoch), order;
  std::ranges::stable_sort(grouped, std::greater{}, [&](std::int64_t row) {
    return rows[static_cast<std::size_t>(row)].length;
  });
  order.reserve(grouped.size());
  for (const std::int64_t i : shuffled_indices(std::ssize(rows) / batch, ~seed, epoch))
    order.insert(order.end(), grouped.begin() + i * batch, grouped.begin() + (i + 1) * batch);
  return order;
}

using SharedRows = std::shared_ptr<const std::vector<PackedRow>>;

Batches batches_of(const SharedRows& rows, std::int64_t batch, std::optional<std::uint64_t> seed,
                   BatchOptions options) {
  const auto load = [rows](std::span<const std::int64_t> chosen) -> BatchData {
    return {{"tokens", column_of(*rows, chosen, &PackedRow::tokens)},
            {"labels", column_of(*rows, chosen, &PackedRow::labels)},
            {"segments", column_of(*rows, chosen, &PackedRow::segments)},
            {"positions", column_of(*rows, chosen, &PackedRow::positions)}};
  };
  return Batches(std::ssize(*rows), load, batch, seed, std::move(options));
}

}  // namespace

Batches packed_batches(const std::vector<TextExample>& examples, std::int64_t batch,
                       std::int64_t length, std::optional<std::uint64_t> seed,
                       BatchOptions options) {
  require(length >= 1, "packed_batches: rows of {} tokens; give at least 1", length);
  const auto rows =
      std::make_shared<const std::vector<PackedRow>>(packed_rows(examples, {length}, 1));
  require(!options.drop_last || std::ssize(*rows) >= batch,
          "packed_batches: {} documents fill {} rows of {} tokens, less than a batch of {}; give a "
          "smaller batch, or shorter rows",
          examples.size(), rows->size(), length, batch);
  if (!options.hash) options.hash = [rows] { return hash_of(*rows, fnv1a("packed documents")); };
  return batches_of(rows, batch, seed, std::move(options));
}

Batches bucketed_batches(const std::vector<TextExample>& examples, std::int64_t batch,
                         const std::vector<std::int64_t>& lengths,
                         std::optional<std::uint64_t> seed, BatchOptions options) {
  require(batch >= 1, "bucketed_batches: a batch of {} rows; give at least 1", batch);
  const std::set<std::int64_t> ascending(lengths.begin(), lengths.end());
  require(!ascending.empty(), "bucketed_batches: no lengths of rows; give at least one");
  require(*ascending.begin() >= 1, "bucketed_batches: rows of {} tokens; give at least 1",
          *ascending.begin());
  const auto rows = std::make_shared<const std::vector<PackedRow>>(
      packed_rows(examples, {ascending.begin(), ascending.end()}, batch));
  if (!options.hash)
    options.hash = [rows, batch] {  // other batches are other data: they cut epochs elsewhere
      return hash_of(*rows, fnv1a(fmt::format("bucketed documents {}", batch)));
    };
  options.order = {};
  if (seed)
    options.order = [=](std::int64_t epoch) { return bucketed_order(*rows, batch, *seed, epoch); };
  return batches_of(rows, batch, seed, std::move(options));
}

}  // namespace alpa
