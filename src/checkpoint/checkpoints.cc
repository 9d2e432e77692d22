// src/checkpoint/checkpoints.cc — when a run is saved, by whom it is written, and what it resumes
#include "alpa/checkpoint/checkpoints.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/exception_text.h"
#include "src/base/host_memory.h"
#include "src/base/start_threads.h"
#include "src/checkpoint/folder.h"
#include "src/checkpoint/new_file.h"
#include "src/checkpoint/restore.h"
#include "src/checkpoint/save.h"
#include "src/checkpoint/state_content.h"
#include "src/checkpoint/stop_signals.h"

namespace alpa {
namespace {

using namespace checkpoint;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPageBytes = kDirectAlignment;
constexpr int kWriterNice = 10;

/// Memory for a snapshot.
struct Room {
  /// Of memory that `NewFile::write_direct` can write from.
  struct Delete {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{kPageBytes}); }
  };
  std::unique_ptr<std::byte[], Delete> bytes;
  std::int64_t size = 0;

  /// Takes the memory, and every page of it now: no save has to wait for it, or finds none left.
  /// Throws Error with the bytes if there is too little.
  void reserve(std::int64_t wanted) {
    if (wanted <= size) return;
    bytes.reset();
    size = 0;
    const std::int64_t available = host_memory().available_bytes;
    require(wanted <= available,
            "checkpoints: a snapshot of the state takes {} bytes of host memory, and {} are "
            "available; use fewer devices or more machines, or save less",
            wanted, available);
    bytes.reset(new (std::align_val_t{kPageBytes}) std::byte[static_cast<std::size_t>(wanted)]);
    size = wanted;
    for (std::int64_t at = 0; at < size; at += kPageBytes) bytes[at] = std::byte{0};
  }
};

/// Where a loop of `resume` stands. A save between its steps knows the position from it.
struct Loop {
  Batches batches;
  DataPosition current;   ///< where the current batch begins
  std::int64_t step = 0;  ///< of the state, when the current batch was handed out

  StoredData data(const TrainState& state) const {
    const bool used = state.step() > step;
    return {used ? batches.after(current) : current, batches.examples(), batches.seed()};
  }
};

/// The position after so many steps with one batch each.
DataPosition position_after(std::int64_t steps, const Batches& batches) {
  DataPosition position{steps / batches.size(), 0};
  for (std::int64_t i = steps % batches.size(); i > 0; --i) position = batches.after(position);
  return position;
}

/// Throws Error unless a checkpoint's data are these.
void check_data(const StoredData& stored, const Batches& batches, const std::string& title) {
  require(stored.examples == batches.examples(),
          "{}: was saved in a run over {} examples, these batches have {}; resume with the same "
          "data, or restore the state by hand",
          title, stored.examples, batches.examples());
  const auto text = [](std::optional<std::uint64_t> seed) {
    return seed ? fmt::format("shuffled with seed {}", *seed) : std::string("not shuffled");
  };
  require(stored.seed == batches.seed(),
          "{}: its examples were {}, these are {}; resume with the same seed, or restore the state "
          "by hand",
          title, text(stored.seed), text(batches.seed()));
}

}  // namespace

struct Checkpoints::Impl {
  Impl(std::string path, CheckpointOptions given) : folder(std::move(path)), options(given) {
    if (!options.notify)
      options.notify = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  }
  ~Impl() {
    join();
    if (const std::exception_ptr thrown = failure->take()) options.notify(text_of(thrown));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string title(std::int64_t step) const {
    return shown_path(folder + "/" + folder_of_step(step));
  }

  // ---- saving

  void lock_folder() {
    if (!lock) lock.emplace(folder);
  }

  void join() {
    for (std::thread& thread : writer) thread.join();
    writer.clear();
  }

  /// Waits for the writer. Throws what it failed with.
  void wait() {
    join();
    failure->rethrow_any();
  }

  void save(const TrainState& state, SaveOptions save_options) {
    lock_folder();
    wait();
    auto content = std::make_shared<StateContent>(state);
    room.reserve(content->bytes());
    const runtime::StateCounters counters = content->read(room.bytes.get());
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->manifest.step = state.step();
    snapshot->manifest.seed = counters.seed;
    snapshot->manifest.steps = counters.steps;
    snapshot->manifest.metrics = counters.metrics;
    snapshot->manifest.user = std::move(save_options.user);
    if (loop) snapshot->manifest.data = loop->data(state);
    snapshot->graph = &content->graph();
    snapshot->boxes = content->boxes();
    snapshot->bytes = {room.bytes.get(), static_cast<std::size_t>(content->bytes())};
    content->tell(failure);
    last_step = state.step();
    last_time = Clock::now();
    start_threads(
        writer, 1, "checkpoints",
        [this, snapshot, content](int) {
          // Training goes first: the disk waits anyway. Not the nicest: what else runs on the
          // machine would keep a writer that training waits for from its turn.
          ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWriterNice);
          try {
            snapshot->plan = plan_of(content->planned());
            save_snapshot(folder, std::move(*snapshot), options.keep);
          } catch (...) {
            failure->record(std::current_exception());
          }
        },
        [] {});
  }

  /// Its JSON, which is made once. For the writer.
  std::string_view plan_of(const std::shared_ptr<const CompiledStep>& step) {
    if (planned != step) planned = step, plan = to_json(*step);
    return plan;
  }

  /// Whether the state is to be saved after this step.
  bool due(std::int64_t step) const {
    const SaveInterval& every = options.every;
    return step > last_step && ((every.steps > 0 && step / every.steps > last_step / every.steps) ||
                                (every.time.count() > 0 && Clock::now() - last_time >= every.time));
  }

  // ---- restoring

  RestoredCheckpoint restore(const TrainState& state, std::int64_t step,
                             const RestoreOptions& restore_options) {
    join();  // the snapshot is still being written
    const StateContent content(state);
    Room own;
    Room& read = room.size > 0 ? room : own;
    read.reserve(content.bytes());
    std::vector<std::string> damaged;
    const std::vector<std::int64_t> steps = steps_in(folder);
    while (true) {
      try {
        RestoredCheckpoint result =
            restore_step(folder, step, content, read.bytes.get(), restore_options);
        result.restored.damaged = std::move(damaged);
        return result;
      } catch (const Damage& error) {
        const auto before = std::lower_bound(steps.begin(), steps.end(), step);
        if (!restore_options.fallback || before == steps.begin()) throw;
        damaged.emplace_back(error.what());
        step = *std::prev(before);
      }
    }
  }

  const std::string folder;
  CheckpointOptions options;
  std::optional<FolderLock> lock;
  std::optional<Loop> loop;
  Room room;                                    ///< the writer's while it runs
  std::shared_ptr<const CompiledStep> planned;  ///< whose JSON `plan` is
  std::string plan;
  std::int64_t last_step = 0;
  Clock::time_point last_time = Clock::now();
  const std::shared_ptr<runtime::BackgroundFailure> failure =  ///< of the writer
      std::make_shared<runtime::BackgroundFailure>();
  std::vector<std::thread> writer;
};

Checkpoints::Checkpoints(const std::string& folder, CheckpointOptions options)
    : impl_(std::make_shared<Impl>(folder, std::move(options))) {
  const CheckpointOptions& o = impl_->options;
  require(!folder.empty(), "Checkpoints: the folder's name is empty");
  require(o.keep >= 0, "CheckpointOptions: keep is {}; give 0 for all, or more", o.keep);
  require(o.every.steps >= 0 && o.every.time.count() >= 0,
          "CheckpointOptions: every is {}; give steps or a time above 0",
          o.every.steps < 0 ? fmt::format("{} steps", o.every.steps)
                            : fmt::format("{} ms", o.every.time.count()));
}

Checkpoints::~Checkpoints() = default;
Checkpoints::Checkpoints(Checkpoints&&) noexcept = default;
Checkpoints& Checkpoints::operator=(Checkpoints&&) noexcept = default;

void Checkpoints::save(const TrainState& state, SaveOptions options) {
  impl_->save(state, std::move(options));
}

void Checkpoints::wait() { impl_->wait(); }

std::vector<std::int64_t> Checkpoints::steps() const { return steps_in(impl_->folder); }

std::optional<std::int64_t> Checkpoints::newest() const {
  const std::vector<std::int64_t> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

Restored Checkpoints::restore(TrainState& state, std::int64_t step, RestoreOptions options) const {
  return impl_->restore(state, step, options).restored;
}

struct ResumedBatches::Impl {
  std::shared_ptr<Checkpoints::Impl> saved;
  TrainState state;
  std::optional<Restored> restored;
  BatchRange range;
  StopSignals signals;
  BatchRange::Iterator batch = {};

  Loop& loop() { return *saved->loop; }

  /// The current batch has been used.
  void step_done() {
    loop().current = loop().batches.after(loop().current);
    loop().step = state.step();
    if (const int signal = signals.caught()) save_and_exit(signal);
    if (saved->due(state.step())) saved->save(state, {});
  }

  /// Nothing is left to do; what was done is durable.
  void finish() {
    if (state.step() > saved->last_step) saved->save(state, {});
    saved->wait();
  }

  [[noreturn]] void save_and_exit(int signal) {
    try {
      finish();
      saved->options.notify(fmt::format("signal {}: step {} is saved in {}", signal, state.step(),
                                        shown_path(saved->folder)));
    } catch (const std::exception& error) {
      saved->options.notify(fmt::format("signal {}: {}", signal, error.what()));
    }
    StopSignals::exit_for(signal);
  }
};

ResumedBatches Checkpoints::resume(const Executable& step, TrainState& state,
                                   const Batches& batches, std::int64_t epochs) {
  require(epochs >= 0, "Checkpoints::resume: {} epochs; give 0 or more", epochs);
  require(state.belongs_to(step),
          "Checkpoints::resume: this state belongs to another executable; make one with init() of "
          "this one");
  impl_->lock_folder();
  impl_->wait();
  impl_->room.reserve(StateContent(state).bytes());
  std::optional<Restored> restored;
  DataPosition position;
  if (const std::optional<std::int64_t> newest = this->newest()) {
    RestoredCheckpoint result = impl_->restore(state, *newest, {.only = {}, .fallback = true});
    const std::string title = impl_->title(result.restored.step);
    if (result.data) check_data(*result.data, batches, title);
    position = result.data ? result.data->position : position_after(state.step(), batches);
    for (const std::string& line : result.restored.damaged) impl_->options.notify(line);
    impl_->options.notify(fmt::format("resumed from {}", title));
    restored = std::move(result.restored);
  }
  impl_->last_step = state.step();
  impl_->last_time = Clock::now();
  impl_->loop = Loop{batches, position, state.step()};
  position.epoch = std::min(position.epoch, epochs);
  if (position.epoch == epochs) position.example = 0;
  return ResumedBatches(std::unique_ptr<ResumedBatches::Impl>(
      new ResumedBatches::Impl{impl_, state, std::move(restored), batches.from(position, epochs),
                               StopSignals(impl_->options.on_signals)}));
}

const BatchData* ResumedBatches::current() const {
  return impl_->batch == std::default_sentinel ? nullptr : &*impl_->batch;
}

void ResumedBatches::advance() {
  impl_->step_done();
  ++impl_->batch;
  if (impl_->batch == std::default_sentinel) impl_->finish();
}

ResumedBatches::ResumedBatches(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResumedBatches::ResumedBatches(ResumedBatches&&) noexcept = default;
ResumedBatches::~ResumedBatches() = default;

ResumedBatches::Iterator ResumedBatches::begin() {
  impl_->batch = impl_->range.begin();
  return Iterator(*this);
}

const std::optional<Restored>& ResumedBatches::restored() const { return impl_->restored; }

}  // namespace alpa
