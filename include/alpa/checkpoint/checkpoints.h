#pragma once
/// Checkpoints of a training run: saved while it goes on, and restored on any devices.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alpa/executable.h"
#include "alpa/train/batches.h"
#pragma GCC visibility push(default)

namespace alpa {

/// How often a run is saved: after so many steps (`100`), or after so much time (`10min`).
struct SaveInterval {
  std::int64_t steps = 0;         ///< 0: not by steps
  std::int64_t milliseconds = 0;  ///< 0: not by time
  SaveInterval() = default;
  SaveInterval(std::int64_t steps) : steps(steps) {}  // NOLINT: a number is the usual case
  /// A `std::chrono::duration`, whose header takes long to compile.
  template <class Time, class Period = typename Time::period>
  SaveInterval(Time time)  // NOLINT: as above
      : milliseconds(static_cast<std::int64_t>(1e3 * static_cast<double>(time.count()) *
                                               Period::num / Period::den)) {}
};

/// Options of `Checkpoints`.
struct CheckpointOptions {
  SaveInterval every = {};  ///< of `resume`; default: only at the end of its loop
  int keep = 3;             ///< the newest so many stay, older ones are removed; 0: all stay
  /// Before a save, replicas of the state are compared (`TrainState::check_replicas`): what differs
  /// is not saved, but an Error.
  bool check_replicas = true;
  /// SIGTERM and SIGINT during the loop of `resume` save once more and end the program with status
  /// 143 or 130, unless it handles them itself. A second one ends it at once. In a launch of
  /// several processes a signal to one counts for all.
  bool on_signals = true;
  /// Gets lines about what was resumed from, and what could not be; in every process of a launch.
  /// Default: stderr, once.
  std::function<void(const std::string& line)> notify = {};
};

/// Options of `Checkpoints::save`.
struct SaveOptions {
  /// Texts to find again in `Restored::user`; those of rank 0.
  std::map<std::string, std::string> user = {};
};

/// Options of `Checkpoints::restore`.
struct RestoreOptions {
  /// Pattern of the tensors that are restored, `*` matches any text. All others keep their content,
  /// and so does the step counter. Default: everything, and the names must be the same.
  std::string only = {};
  bool cast = false;      ///< converts tensors of other floating types; else they are an Error
  bool fallback = false;  ///< a damaged checkpoint: take the newest whole one before it
};

/// What was restored.
struct Restored {
  std::int64_t step = 0;                    ///< of the checkpoint
  std::map<std::string, std::string> user;  ///< texts given to `save`
  std::map<std::string, double> metrics;    ///< of the last step before it was saved
  std::optional<DataPosition> position;     ///< in the data, if a loop of `resume` saved it
  std::vector<std::string> missing;         ///< in the state and chosen, not in the checkpoint
  std::vector<std::string> left_over;       ///< in the checkpoint and chosen, not in the state
  std::vector<std::string> damaged;         ///< why newer checkpoints were not taken
};

class ResumedBatches;

/// The checkpoints in a folder. A checkpoint has a name only once it is whole and durable, so the
/// program may be killed at any instant. One program at a time saves into a folder; any may read.
/// Calls are made by one thread at a time. The processes of a launch make all calls together, with
/// a folder that all hosts see: each writes and reads what its devices hold, and what fails in one
/// is thrown in all, with its rank and host.
class Checkpoints {
 public:
  /// Nothing is made or read yet. Throws Error if an option is out of range.
  explicit Checkpoints(const std::string& folder, CheckpointOptions options = {});
  /// Waits until what was saved is durable. A failure that nobody has been told goes to `notify`.
  ~Checkpoints();
  Checkpoints(Checkpoints&&) noexcept;
  Checkpoints& operator=(Checkpoints&&) noexcept;

  /// The batches that a run still needs: restores the newest whole checkpoint into `state`, if
  /// there is one, and begins where it ended; saves after every `every`, in the background, and at
  /// the end. Of a state saved by hand, the position is that after `state.step()` batches. `state`
  /// is of `step`, or shares its state. Throws Error if another program saves into the folder, if
  /// memory for a snapshot is lacking, if the checkpoint is of another model or other data.
  ResumedBatches resume(const Executable& step, TrainState& state, const Batches& batches,
                        std::int64_t epochs);

  /// Saves all of `state` as it is now: returns once it is copied, and writes in the background,
  /// after what was saved before. If that fails, the next step on the state, save or wait throws
  /// Error; the state and older checkpoints are as they were.
  void save(const TrainState& state, SaveOptions options = {});
  /// Waits until what was saved is durable. Throws Error if that failed.
  void wait();

  /// Steps of the checkpoints, ascending.
  std::vector<std::int64_t> steps() const;
  /// The newest of them.
  std::optional<std::int64_t> newest() const;
  /// Restores a checkpoint into `state`, whatever plan, mesh and number of devices saved it. Every
  /// byte is checked first: on any Error the state is as it was. Throws Error naming file and
  /// tensor that are damaged, or the names or types that differ.
  Restored restore(TrainState& state, std::int64_t step, RestoreOptions options = {}) const;

 private:
  friend class ResumedBatches;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Batches of a run that saves itself, for one loop, with one step on each:
/// `for (const auto& batch : saved.resume(train, state, data, 10)) train.run(state, batch);`
class ResumedBatches {
 public:
  /// Of the loop. Its next step saves if it is time to, and throws Error as `Checkpoints::save`.
  using Iterator = BatchIterator<ResumedBatches>;

  ResumedBatches(ResumedBatches&&) noexcept;
  ~ResumedBatches();
  /// Takes the first batch. Call it once.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }  ///< behind the last batch
  /// What was restored; nothing for a run that begins.
  const std::optional<Restored>& restored() const;

 private:
  friend class Checkpoints;
  friend Iterator;
  const BatchData* current() const;  ///< null behind the last
  void advance();
  struct Impl;
  explicit ResumedBatches(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace alpa
#pragma GCC visibility pop
