// src/train/batches.cc — cuts data sets into batches, on a background thread
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/train/dataset.h"
#include "src/base/start_threads.h"

namespace alpa {
namespace {

/// The number of examples. Throws Error unless all arrays have as many.
std::int64_t common_rows(const BatchData& arrays) {
  require(!arrays.empty(), "batches: no arrays are given; give one per input of the step");
  const auto& [first_name, first] = *arrays.begin();
  for (const auto& [name, array] : arrays) {
    require(!array.shape().empty(),
            "batches: \"{}\" is one number; give an array with one row per example", name);
    require(array.shape()[0] == first.shape()[0],
            "batches: \"{}\" is {} but \"{}\" is {}; row i of every array must be example i", name,
            to_string(array.type()), first_name, to_string(first.type()));
  }
  return first.shape()[0];
}

}  // namespace

struct Batches::Source {
  std::int64_t examples;
  LoadExamples load;
  std::int64_t batch;
  std::optional<std::uint64_t> seed;
  BatchOptions options;

  std::int64_t batches_per_epoch() const {
    return options.drop_last ? examples / batch : (examples - 1) / batch + 1;
  }

  std::vector<std::int64_t> order(std::int64_t epoch) const {
    if (seed) return shuffled_indices(examples, *seed, epoch);
    std::vector<std::int64_t> order(static_cast<std::size_t>(examples));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
};

/// The background thread fills a queue, and waits while it is full.
struct BatchRange::Impl {
  Impl(std::shared_ptr<const Batches::Source> of, std::int64_t begin, std::int64_t end)
      : source(std::move(of)), first_epoch(begin), end_epoch(end) {
    start_threads(
        threads, 1, "batches", [this](int) { make_all(); }, [] {});
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopped = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // ---- the background thread

  void make_all() {
    std::exception_ptr thrown;
    try {
      for (std::int64_t epoch = first_epoch; epoch < end_epoch && make_epoch(epoch);) ++epoch;
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    failure = thrown;
    finished = true;
    changed.notify_all();
  }

  /// Returns false if no more are wanted.
  bool make_epoch(std::int64_t epoch) {
    const std::vector<std::int64_t> order = source->order(epoch);
    for (std::int64_t i = 0; i < source->batches_per_epoch(); ++i) {
      if (!await_room()) return false;
      const std::int64_t first = i * source->batch;
      const std::int64_t rows = std::min(source->batch, source->examples - first);
      BatchData batch = source->load(std::span(order).subspan(first, rows));
      const std::lock_guard lock(mutex);
      ready.push_back(std::move(batch));
      changed.notify_all();
    }
    return true;
  }

  bool await_room() {
    const auto room = static_cast<std::size_t>(source->options.prefetch);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stopped || ready.size() < room; });
    return !stopped;
  }

  // ---- the loop

  /// The next batch becomes the current one; after the last there is none.
  void advance() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return finished || !ready.empty(); });
    current.reset();
    if (ready.empty()) {
      if (failure) std::rethrow_exception(failure);
      return;
    }
    current = std::move(ready.front());
    ready.pop_front();
    changed.notify_all();
  }

  const std::shared_ptr<const Batches::Source> source;
  const std::int64_t first_epoch, end_epoch;
  std::optional<BatchData> current;  ///< of the loop
  std::mutex mutex;                  ///< guards what follows, except the thread
  std::condition_variable changed;
  std::deque<BatchData> ready;
  std::exception_ptr failure;
  bool finished = false, stopped = false;
  std::vector<std::thread> threads;
};

const BatchRange::Iterator::value_type& BatchRange::Iterator::operator*() const {
  return *range_->impl_->current;
}

BatchRange::Iterator& BatchRange::Iterator::operator++() {
  range_->impl_->advance();
  return *this;
}

bool BatchRange::Iterator::operator==(std::default_sentinel_t) const {
  return !range_->impl_->current;
}

BatchRange::BatchRange(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchRange::BatchRange(BatchRange&&) noexcept = default;
BatchRange& BatchRange::operator=(BatchRange&&) noexcept = default;
BatchRange::~BatchRange() = default;

BatchRange::Iterator BatchRange::begin() {
  impl_->advance();
  Iterator iterator;
  iterator.range_ = this;
  return iterator;
}

Batches::Batches(std::int64_t examples, LoadExamples load, std::int64_t batch,
                 std::optional<std::uint64_t> seed, BatchOptions options)
    : source_(std::make_shared<Source>(Source{examples, std::move(load), batch, seed, options})) {
  require(batch >= 1, "batches: a batch of {} examples; give at least 1", batch);
  require(options.prefetch >= 1, "batches: prefetch is {}; give at least 1", options.prefetch);
  require(examples >= (options.drop_last ? batch : 1),
          "batches: {} examples fill no batch of {}; give a smaller batch or more examples",
          examples, batch);
}

std::int64_t Batches::size() const { return source_->batches_per_epoch(); }

BatchRange Batches::epochs(std::int64_t begin, std::int64_t end) const {
  require(begin >= 0 && begin <= end,
          "batches: epochs {} to {}; they are numbered from 0, and the end comes last", begin, end);
  return BatchRange(std::make_unique<BatchRange::Impl>(source_, begin, end));
}

Batches batches(std::int64_t examples, LoadExamples load, std::int64_t batch,
                std::optional<std::uint64_t> seed, BatchOptions options) {
  return {examples, std::move(load), batch, seed, options};
}

Batches batches(BatchData arrays, std::int64_t batch, std::optional<std::uint64_t> seed,
                BatchOptions options) {
  const std::int64_t examples = common_rows(arrays);
  const auto take = [arrays = std::move(arrays)](std::span<const std::int64_t> rows) {
    BatchData taken;
    for (const auto& [name, array] : arrays) taken.emplace(name, take_rows(array, rows));
    return taken;
  };
  return {examples, take, batch, seed, options};
}

Batches batches(const Dataset& data, std::int64_t batch, std::optional<std::uint64_t> seed,
                BatchOptions options) {
  return batches({{"x", data.x}, {"y", data.y}}, batch, seed, options);
}

}  // namespace alpa
