#pragma once
/// Batches of examples: shuffled, cut and made in the background, shared by processes.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alpa/tensor/array.h"
#pragma GCC visibility push(default)

namespace alpa {

/// A permutation of 0 … n-1, a function of (seed, epoch): Fisher-Yates with Philox numbers.
std::vector<std::int64_t> shuffled_indices(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

/// The given rows (indices along dimension 0) of `array`, in that order. Throws Error if
/// an index is out of range.
Array take_rows(const Array& array, std::span<const std::int64_t> rows);

/// Options of `batches`.
struct BatchOptions {
  bool drop_last = false;  ///< leave out the examples at the end of an epoch that fill no batch
  int prefetch = 2;        ///< batches that a background thread makes ahead of their use
  /// In a launch of several processes each one loads its share of a batch's rows, and gets the
  /// others' from them; false: each loads all. Batches of arrays are whole in every process.
  bool own_rows = true;
  /// A hash of the data behind `load`, which all processes of a launch, and a run that is resumed,
  /// must have in common. Called when it is needed, once. Empty: of arrays, tokens and image
  /// folders their own; of other data nobody knows.
  std::function<std::uint64_t()> hash = {};
  /// The order of an epoch: each of the numbers 0 … examples - 1 once. Called on the background
  /// thread. Empty: shuffled by the seed, or as they are without one.
  std::function<std::vector<std::int64_t>(std::int64_t epoch)> order = {};
};

/// Makes the arrays of a batch, by input name: row i is example rows[i]. It may be called with some
/// rows of a batch only (`BatchOptions::own_rows`).
/// Called on a background thread.
using LoadExamples = std::function<BatchData(std::span<const std::int64_t> rows)>;

/// An input iterator over the batches of a `Range`, which keeps the current one.
template <class Range>
class BatchIterator {
 public:
  using value_type = BatchData;            ///< a batch
  using difference_type = std::ptrdiff_t;  ///< for the standard library
  BatchIterator() = default;
  explicit BatchIterator(Range& range) : range_(&range) {}  ///< at the current batch of `range`
  const value_type& operator*() const { return *range_->current(); }
  const value_type* operator->() const { return range_->current(); }
  /// Throws what making the next batch throws.
  BatchIterator& operator++() {
    range_->advance();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return range_->current() == nullptr; }

 private:
  Range* range_ = nullptr;
};

/// Batches in order, for one loop: `for (const auto& batch : batches(data, 32, seed).epoch(0))`. A
/// background thread makes them and ends with this object, also when the loop ends early. What the
/// thread throws, the loop throws when it gets there.
class BatchRange {
 public:
  using Iterator = BatchIterator<BatchRange>;  ///< of the loop

  BatchRange(BatchRange&&) noexcept;
  BatchRange& operator=(BatchRange&&) noexcept;
  ~BatchRange();

  /// Takes the first batch. Call it once: batches that were passed are gone.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }  ///< behind the last batch

 private:
  friend class Batches;
  friend Iterator;
  const BatchData* current() const;  ///< null behind the last
  void advance();
  struct Impl;
  explicit BatchRange(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// How far a loop over epochs has come.
struct DataPosition {
  std::int64_t epoch = 0;    ///< the first is 0
  std::int64_t example = 0;  ///< of the epoch's order: those before it have been used
  bool operator==(const DataPosition&) const = default;
};

/// A data set in batches. With a seed, every epoch has an order of its own, a function of (seed,
/// epoch) alone; without one, examples keep their order. Copies share the data.
class Batches {
 public:
  /// Throws Error if there are no examples, `batch` or `prefetch` is less than 1, or
  /// `drop_last` leaves no batch.
  Batches(std::int64_t examples, LoadExamples load, std::int64_t batch,
          std::optional<std::uint64_t> seed = {}, BatchOptions options = {});

  /// Batches per epoch.
  std::int64_t size() const;
  /// The batches of one epoch; the first is 0.
  BatchRange epoch(std::int64_t number) const { return epochs(number, number + 1); }
  /// The batches of epochs `begin` to `end` - 1.
  BatchRange epochs(std::int64_t begin, std::int64_t end) const { return from({begin, 0}, end); }
  /// The batches from a position up to epoch `end` - 1: the rest of its epoch, then whole ones.
  BatchRange from(DataPosition begin, std::int64_t end) const;
  /// The position behind the batch that begins at `position`.
  DataPosition after(DataPosition position) const;

  std::int64_t examples() const;              ///< of an epoch
  std::optional<std::uint64_t> seed() const;  ///< of the order
  std::optional<std::uint64_t> hash() const;  ///< `BatchOptions::hash`; none: nobody knows it
  std::int64_t batch() const;                 ///< examples of a batch
  bool drops_last() const;                    ///< `BatchOptions::drop_last`

 private:
  friend class BatchRange;
  struct Source;
  std::shared_ptr<const Source> source_;
};

/// Batches of any arrays, by input name. Throws Error unless they have the same number of rows.
Batches batches(BatchData arrays, std::int64_t batch, std::optional<std::uint64_t> seed = {},
                BatchOptions options = {});
/// Batches that `load` makes, for example from files.
Batches batches(std::int64_t examples, LoadExamples load, std::int64_t batch,
                std::optional<std::uint64_t> seed = {}, BatchOptions options = {});

}  // namespace alpa
#pragma GCC visibility pop
