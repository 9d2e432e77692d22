// src/api/checkpoint/checkpoints.cc — when a run is saved, by whom it is written, and what
// it resumes
#include "alpa/checkpoint/checkpoints.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <thread>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/api/checkpoint/folder.h"
#include "src/api/checkpoint/new_file.h"
#include "src/api/checkpoint/restore.h"
#include "src/api/checkpoint/save.h"
#include "src/api/checkpoint/shares.h"
#include "src/api/checkpoint/state_content.h"
#include "src/api/checkpoint/stop_signals.h"
#include "src/base/exception_text.h"
#include "src/base/host_memory.h"
#include "src/base/start_threads.h"
#include "src/ops/custom_ops.h"
#include "src/processes/tagged_world.h"
#include "src/train/data_hash.h"

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
  StoredData::Since since;

  StoredData data(const TrainState& state) const {
    const bool used = state.step() > step;
    StoredData data{used ? batches.after(current) : current, batches.examples(), batches.seed(),
                    since};
    // A program may have left batches out, or run several steps on one: what follows is counted.
    if (data.position != position_behind(since.position, state.step() - since.step, data.examples,
                                         since.batch, since.drops_last))
      data.since->step = state.step(), data.since->position = data.position;
    return data;
  }
};

/// The launch of several processes that this one belongs to, with a tagged world for the user's
/// calls and one for the writers.
struct LaunchWorlds {
  explicit LaunchWorlds(processes::World& world)
      : world(world),
        calls(world, processes::TaggedWorld::Waiting::hurried),
        writers(world, processes::TaggedWorld::Waiting::patient) {}
  processes::World& world;
  processes::TaggedWorld calls, writers;
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
  require(stored.seed == batches.seed(),
          "{}: its examples were {}, these are {}; resume with the same seed, or restore the state "
          "by hand",
          title, order_text(stored.seed), order_text(batches.seed()));
  const std::optional<std::uint64_t> hash = batches.hash();
  const bool known = stored.since && stored.since->hash && hash;
  require(!known || stored.since->hash == hash,
          "{}: was saved in a run over data with hash {:016x}, these have {:016x}; resume with the "
          "same data, or restore the state by hand",
          title, known ? *stored.since->hash : 0, hash.value_or(0));
}

/// Since when batches are as these, for a run that goes on at `step`.
StoredData::Since since_of(const std::optional<StoredData>& stored, std::int64_t step,
                           DataPosition position, const Batches& batches) {
  const bool same = stored && stored->since && stored->since->batch == batches.batch() &&
                    stored->since->drops_last == batches.drops_last();
  if (same) return *stored->since;
  return {step, position, batches.batch(), batches.drops_last(), batches.hash()};
}

}  // namespace

struct Checkpoints::Impl {
  Impl(std::string path, CheckpointOptions given) : folder(std::move(path)), options(given) {
    if (processes::World* const world = processes::world()) launch.emplace(*world);
    if (!options.notify)
      options.notify = [speaks = rank() == 0](const std::string& line) {
        if (speaks) fmt::print(stderr, "{}\n", line);
      };
  }
  ~Impl() {
    join();
    tell(background->take());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string title(std::int64_t step) const {
    return shown_path(folder + "/" + folder_of_step(step));
  }

  /// A failed launch is told by others.
  void tell(const std::exception_ptr& failure, const std::string& before = "") const {
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const processes::LaunchFailed&) {
    } catch (...) {
      options.notify(before + text_of(failure));
    }
  }

  // ---- several processes

  int rank() const { return launch ? launch->world.rank() : 0; }

  /// A call that all processes make; `what`() says it in words.
  template <class Text>
  void note_call(Text&& what) const {
    if (launch) launch->world.note_call(fmt::format("{} {}", what(), shown_path(folder)));
  }

  /// Returns make() of rank 0.
  std::string from_rank_0(const std::function<std::string()>& make) const {
    return launch ? launch->world.from_rank_0(make) : make();
  }

  /// Runs body() in all processes; what one throws is thrown in all.
  void in_all(const std::function<void()>& body) { launch ? launch->calls.in_all(body) : body(); }

  /// What has come in the background: the same in all processes.
  runtime::Background::View view(const StopSignals& signals) const {
    if (launch) return background->agreed();
    runtime::Background::View view = background->look();
    view.signal = signals.caught();
    return view;
  }

  std::vector<std::int64_t> steps() const {
    const std::string all =
        from_rank_0([&] { return fmt::format("{}", fmt::join(steps_in(folder), " ")); });
    std::istringstream words(all);
    std::vector<std::int64_t> steps;
    for (std::int64_t step = 0; words >> step;) steps.push_back(step);
    return steps;
  }

  // ---- saving

  /// By rank 0, for all.
  void lock_folder() {
    if (locked) return;
    from_rank_0([&] {
      lock.emplace(folder);
      return std::string();
    });
    locked = true;
  }

  void join() {
    for (std::thread& thread : writer) thread.join();
    writer.clear();
  }

  /// Waits for the writer. Throws what it failed with.
  void wait() {
    join();
    background->rethrow_any();
  }

  /// A save is over for all processes, whatever became of it, before the next one begins.
  void save(const TrainState& state, SaveOptions save_options) {
    note_call([&] { return fmt::format("saving step {} in", state.step()); });
    lock_folder();
    wait();
    if (options.check_replicas) state.check_replicas();
    auto content = std::make_shared<StateContent>(state);
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->places = divide(content->boxes());
    const std::vector<runtime::StateBox> share =
        share_of(rank(), content->boxes(), snapshot->places);
    const std::int64_t bytes = runtime::snapshot_bytes(share);
    in_all([&] { room.reserve(bytes); });
    const runtime::StateCounters counters = content->read(share, room.bytes.get());
    snapshot->manifest.step = state.step();
    snapshot->manifest.seed = counters.seed;
    snapshot->manifest.steps = counters.steps;
    snapshot->manifest.metrics = counters.metrics;
    snapshot->manifest.user = std::move(save_options.user);
    snapshot->manifest.operators = versions_of(content->graph());
    if (loop) snapshot->manifest.data = loop->data(state);
    snapshot->graph = &content->graph();
    snapshot->boxes = content->boxes();
    snapshot->bytes = {room.bytes.get(), static_cast<std::size_t>(bytes)};
    begin_interval(state);
    start_writer([this, snapshot, content](int) {
      // Training goes first: the disk waits anyway. Not the nicest: what else runs on the
      // machine would keep a writer that training waits for from its turn.
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWriterNice);
      try {
        if (rank() == 0) snapshot->plan = plan_of(content->planned());
        save_snapshot(folder, std::move(*snapshot), options.keep,
                      launch ? &launch->writers : nullptr);
      } catch (...) {
        background->record(std::current_exception());
      }
    });
  }

  /// Throws Error if no thread can be started; the others of a launch would wait for it.
  template <class Body>
  void start_writer(const Body& body) {
    try {
      start_threads(writer, 1, "checkpoints", body, [] {});
    } catch (...) {
      if (launch) launch->world.fail(std::current_exception());
      throw;
    }
  }

  /// The state has been saved or restored: the next save is due an interval later.
  void begin_interval(const TrainState& state) {
    StateContent(state).watch(background);
    last_step = state.step();
    const std::chrono::milliseconds time(options.every.milliseconds);
    background->set_due(time.count() > 0 ? std::optional(Clock::now() + time) : std::nullopt);
  }

  /// Its JSON, which is made once. For the writer.
  std::string_view plan_of(const std::shared_ptr<const CompiledStep>& step) {
    if (planned != step) planned = step, plan = to_json(*step);
    return plan;
  }

  /// Whether the state is to be saved after this step.
  bool due(std::int64_t step, const runtime::Background::View& now) const {
    const std::int64_t every = options.every.steps;
    return step > last_step && ((every > 0 && step / every > last_step / every) || now.due);
  }

  // ---- restoring

  RestoredCheckpoint restore(const TrainState& state, std::int64_t step,
                             const RestoreOptions& restore_options) {
    note_call([&] { return fmt::format("restoring step {} of", step); });
    join();  // the snapshot is still being written
    const StateContent content(state);
    Room own;
    Room& read = room.size > 0 ? room : own;
    in_all([&] { read.reserve(runtime::snapshot_bytes(content.boxes_here())); });
    std::vector<std::string> damaged;
    const std::vector<std::int64_t> steps = this->steps();
    while (true) {
      try {
        RestoredCheckpoint result =
            restore_step(folder, step, content, read.bytes.get(), restore_options,
                         launch ? &launch->calls : nullptr);
        for (const std::string& line : result.notes) options.notify(line);
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
  std::optional<LaunchWorlds> launch;  ///< none: this process is alone
  bool locked = false;
  std::optional<FolderLock> lock;  ///< rank 0's
  std::optional<Loop> loop;
  Room room;                                    ///< the writer's while it runs
  std::shared_ptr<const CompiledStep> planned;  ///< whose JSON `plan` is
  std::string plan;
  std::int64_t last_step = 0;
  const std::shared_ptr<runtime::Background> background = std::make_shared<runtime::Background>();
  std::vector<std::thread> writer;
};

Checkpoints::Checkpoints(const std::string& folder, CheckpointOptions options)
    : impl_(std::make_shared<Impl>(folder, std::move(options))) {
  const CheckpointOptions& o = impl_->options;
  require(!folder.empty(), "Checkpoints: the folder's name is empty");
  require(o.keep >= 0, "CheckpointOptions: keep is {}; give 0 for all, or more", o.keep);
  require(o.every.steps >= 0 && o.every.milliseconds >= 0,
          "CheckpointOptions: every is {}; give steps or a time above 0",
          o.every.steps < 0 ? fmt::format("{} steps", o.every.steps)
                            : fmt::format("{} ms", o.every.milliseconds));
}

Checkpoints::~Checkpoints() = default;
Checkpoints::Checkpoints(Checkpoints&&) noexcept = default;
Checkpoints& Checkpoints::operator=(Checkpoints&&) noexcept = default;

void Checkpoints::save(const TrainState& state, SaveOptions options) {
  impl_->save(state, std::move(options));
}

void Checkpoints::wait() {
  impl_->note_call([] { return "waiting for what was saved in"; });
  impl_->wait();
}

std::vector<std::int64_t> Checkpoints::steps() const {
  impl_->note_call([] { return "asking for the steps in"; });
  return impl_->steps();
}

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
    const runtime::Background::View now = saved->view(signals);
    if (now.signal != 0 && saved->options.on_signals) save_and_exit(now.signal);
    if (saved->due(state.step(), now)) saved->save(state, {});
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
    } catch (...) {
      saved->tell(std::current_exception(), fmt::format("signal {}: ", signal));
    }
    // A process that ends with a status makes the launcher end the others: all are ready first.
    try {
      if (saved->launch) saved->launch->world.leave();
    } catch (const processes::LaunchFailed&) {
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
  impl_->note_call([&] {
    return fmt::format("resuming {} epochs of {} batches of data with hash {:016x} from", epochs,
                       batches.size(), batches.hash().value_or(0));
  });
  impl_->lock_folder();
  impl_->wait();
  impl_->in_all(
      [&] { impl_->room.reserve(runtime::snapshot_bytes(StateContent(state).boxes_here())); });
  std::optional<Restored> restored;
  std::optional<StoredData> stored;
  DataPosition position;
  if (const std::optional<std::int64_t> newest = this->newest()) {
    RestoredCheckpoint result = impl_->restore(state, *newest, {.only = {}, .fallback = true});
    const std::string title = impl_->title(result.restored.step);
    if (result.data) check_data(*result.data, batches, title);
    position = result.data ? result.data->position : position_after(state.step(), batches);
    for (const std::string& line : result.restored.damaged) impl_->options.notify(line);
    impl_->options.notify(fmt::format("resumed from {}", title));
    restored = std::move(result.restored);
    stored = result.data;
  }
  impl_->begin_interval(state);
  impl_->loop =
      Loop{batches, position, state.step(), since_of(stored, state.step(), position, batches)};
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
