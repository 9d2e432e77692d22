#pragma once
/// Watches the other processes of this host while this one waits inside MPI for all of them: when
/// it joins the launch, and when it leaves. One that is stopped, or never comes, would be waited
/// for without end.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "src/processes/other_processes.h"

namespace alpa::processes {

class SiblingWatch {
 public:
  /// `found` is called on a thread of its own when a sibling has been stopped for `patience`.
  /// `speaks`: whether this is the lowest rank that runs.
  /// Of a process that joins: `late` is called after `limit`, if the watch still runs.
  SiblingWatch(std::chrono::milliseconds patience,
               std::function<void(const Sibling&, bool speaks)> found,
               std::chrono::milliseconds limit = {}, std::function<void()> late = {});
  /// Ends the watch.
  ~SiblingWatch();
  SiblingWatch(const SiblingWatch&) = delete;
  SiblingWatch& operator=(const SiblingWatch&) = delete;

 private:
  void watch(std::chrono::milliseconds patience);

  const std::function<void(const Sibling&, bool)> found_;
  const std::chrono::milliseconds limit_;
  const std::function<void()> late_;  ///< empty: no process joins
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace alpa::processes
