// src/train/batches.cc — cuts data sets into batches, on a background thread
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/train/batches.h"
#include "src/base/start_threads.h"
#include "src/train/data_hash.h"
#include "src/train/shared_rows.h"

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
  processes::World* world;  ///< whose processes share the rows of a batch; null: none do
  mutable std::once_flag hashed = {};
  mutable std::uint64_t hash = 0;

  std::int64_t batches_per_epoch() const {
    return options.drop_last ? examples / batch : (examples - 1) / batch + 1;
  }

  /// No batch of an epoch begins here or behind it.
  std::int64_t end() const { return options.drop_last ? examples - batch + 1 : examples; }

  DataPosition after(DataPosition position) const {
    position.example += batch;
    return position.example < end() ? position : DataPosition{position.epoch + 1, 0};
  }

  std::vector<std::int64_t> order(std::int64_t epoch) const {
    if (options.order) return checked(options.order(epoch), epoch);
    if (seed) return shuffled_indices(examples, *seed, epoch);
    std::vector<std::int64_t> order(static_cast<std::size_t>(examples));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  std::vector<std::int64_t> checked(std::vector<std::int64_t> order, std::int64_t epoch) const {
    std::vector<bool> seen(static_cast<std::size_t>(examples));
    for (std::int64_t i : order)
      if (i >= 0 && i < examples) seen[static_cast<std::size_t>(i)] = true;
    require(std::ssize(order) == examples && std::ranges::all_of(seen, std::identity{}),
            "batches: BatchOptions::order does not give each of the numbers 0 to {} once for epoch "
            "{}",
            examples - 1, epoch);
    return order;
  }
};

/// The background thread fills a queue, and waits while it is full.
struct BatchRange::Impl {
  Impl(std::shared_ptr<const Batches::Source> of, DataPosition begin, std::int64_t end)
      : source(std::move(of)), first(begin), end_epoch(end) {
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
      std::vector<std::int64_t> order;
      for (DataPosition at = first; at.epoch < end_epoch && await_room(); at = source->after(at)) {
        if (order.empty() || at.example == 0) order = source->order(at.epoch);
        make_batch(order, at.example);
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    failure = thrown;
    finished = true;
    changed.notify_all();
  }

  void make_batch(const std::vector<std::int64_t>& order, std::int64_t begin) {
    const std::int64_t rows = std::min(source->batch, source->examples - begin);
    std::span<const std::int64_t> wanted = std::span(order).subspan(begin, rows);
    if (source->world) wanted = share_of(wanted, *source->world);
    BatchData batch = wanted.empty() ? BatchData{} : source->load(wanted);
    const std::lock_guard lock(mutex);
    ready.push_back(std::move(batch));
    changed.notify_all();
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
    lock.unlock();
    if (source->world) current = joined(*current, *source->world, ++joined_so_far);
  }

  const std::shared_ptr<const Batches::Source> source;
  const DataPosition first;
  const std::int64_t end_epoch;
  std::optional<BatchData> current;  ///< of the loop
  std::int64_t joined_so_far = 0;    ///< batches, from the shares of all processes
  std::mutex mutex;                  ///< guards what follows, except the thread
  std::condition_variable changed;
  std::deque<BatchData> ready;
  std::exception_ptr failure;
  bool finished = false, stopped = false;
  std::vector<std::thread> threads;
};

const BatchData* BatchRange::current() const { return impl_->current ? &*impl_->current : nullptr; }

void BatchRange::advance() { impl_->advance(); }

BatchRange::BatchRange(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchRange::BatchRange(BatchRange&&) noexcept = default;
BatchRange& BatchRange::operator=(BatchRange&&) noexcept = default;
BatchRange::~BatchRange() = default;

BatchRange::Iterator BatchRange::begin() {
  impl_->advance();
  return Iterator(*this);
}

Batches::Batches(std::int64_t examples, LoadExamples load, std::int64_t batch,
                 std::optional<std::uint64_t> seed, BatchOptions options)
    : source_(new Source{examples, std::move(load), batch, seed, options,
                         options.own_rows ? processes::world() : nullptr}) {
  require(batch >= 1, "batches: a batch of {} examples; give at least 1", batch);
  require(options.prefetch >= 1, "batches: prefetch is {}; give at least 1", options.prefetch);
  require(examples >= (options.drop_last ? batch : 1),
          "batches: {} examples fill no batch of {}; give a smaller batch or more examples",
          examples, batch);
  processes::World* const world = processes::world();
  if (!world) return;
  // What every process has whole is compared batch by batch.
  const std::optional<std::uint64_t> data = options.own_rows ? hash() : std::nullopt;
  world->note_call(fmt::format("batches of {}{} of {} examples, {}{}", batch,
                               options.drop_last ? ", the last one left out," : "", examples,
                               order_text(seed),
                               data ? fmt::format(", with hash {:016x}", *data) : ""));
}

std::int64_t Batches::size() const { return source_->batches_per_epoch(); }

BatchRange Batches::from(DataPosition begin, std::int64_t end) const {
  require(begin.epoch >= 0 && begin.epoch <= end,
          "batches: epochs {} to {}; they are numbered from 0, and the end comes last", begin.epoch,
          end);
  require(begin.example >= 0 && (begin.example == 0 || begin.example < source_->end()),
          "batches: no batch begins at example {} of {}; give one before {}", begin.example,
          source_->examples, source_->end());
  return BatchRange(std::make_unique<BatchRange::Impl>(source_, begin, end));
}

DataPosition Batches::after(DataPosition position) const { return source_->after(position); }
std::int64_t Batches::examples() const { return source_->examples; }
std::optional<std::uint64_t> Batches::seed() const { return source_->seed; }
std::int64_t Batches::batch() const { return source_->batch; }
bool Batches::drops_last() const { return source_->options.drop_last; }

std::optional<std::uint64_t> Batches::hash() const {
  if (!source_->options.hash) return std::nullopt;
  std::call_once(source_->hashed, [&] { source_->hash = source_->options.hash(); });
  return source_->hash;
}

Batches batches(std::int64_t examples, LoadExamples load, std::int64_t batch,
                std::optional<std::uint64_t> seed, BatchOptions options) {
  return {examples, std::move(load), batch, seed, options};
}

Batches batches(BatchData arrays, std::int64_t batch, std::optional<std::uint64_t> seed,
                BatchOptions options) {
  const std::int64_t examples = common_rows(arrays);
  options.own_rows = false;
  if (!options.hash) options.hash = [arrays] { return hash_of(arrays); };
  const auto take = [arrays = std::move(arrays)](std::span<const std::int64_t> rows) {
    BatchData taken;
    for (const auto& [name, array] : arrays) taken.emplace(name, take_rows(array, rows));
    return taken;
  };
  return {examples, take, batch, seed, options};
}

}  // namespace alpa
