#pragma once
/// Events beside the steps of a state: its checkpoints are written, time passes, signals come. The
/// processes of a launch must act on an event at the same step, so rank 0's view of all travels
/// with the metrics of every step (step_of_all.h). Thread-safe.
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace alpa::runtime {

class Background {
 public:
  using Clock = std::chrono::steady_clock;
  struct View {
    int signal = 0;       ///< asks the program to end; 0: none came
    bool failed = false;  ///< something was recorded that nobody has been told
    bool due = false;     ///< the time given to `set_due` has come
  };

  /// Records a failure, such as one of writing a checkpoint. The first one is kept.
  void record(std::exception_ptr thrown);
  /// Removes and returns the recorded failure; null if there is none.
  std::exception_ptr take();
  void rethrow_any();
  /// Sets the time at which `View::due` becomes true; nullopt: never.
  void set_due(std::optional<Clock::time_point> due);

  /// The view of this process as it is now, without signals.
  View look() const;
  /// In a launch: stores rank 0's view at the end of the last step.
  void agree(const View& view);
  View agreed() const;
  /// In a launch, as `rethrow_any`, if the agreed view has a failure: all processes know it soon.
  void rethrow_agreed();

 private:
  mutable std::mutex mutex_;
  std::condition_variable recorded_;
  std::exception_ptr thrown_;
  std::optional<Clock::time_point> due_;
  View agreed_;
};

/// Adds one, once, and removes those that are gone.
void add_background(std::vector<std::weak_ptr<Background>>& all,
                    const std::shared_ptr<Background>& one);
/// The elements of `all` that still exist.
std::vector<std::shared_ptr<Background>> kept(const std::vector<std::weak_ptr<Background>>& all);

}  // namespace alpa::runtime
