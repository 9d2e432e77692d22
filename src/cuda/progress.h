#pragma once
/// Event counter of the threads of a step's cards: a thread notes that something has happened
/// which another one may wait for. Thread-safe.
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "src/base/spin_wait.h"

namespace alpa::cuda {

class Progress {
 public:
  explicit Progress(int threads) : spin_wait_(threads), idle_since_(threads) {}

  /// Begins a step: no thread waits, and none has finished.
  void begin_step();
  /// The count. A thread reads it before it looks for something to do.
  std::uint32_t count() const { return count_.load(); }
  /// Something has happened that another thread may wait for.
  void note() {
    ++count_;
    spin_wait_.wake(count_);
  }
  /// Thread `index` has found nothing to do since the count was `seen`. True if no thread has: all
  /// wait for each other.
  bool is_stuck(int index, std::uint32_t seen);
  /// Thread `index` has nothing to do any more.
  void finish(int index);
  /// Waits, asleep, until the count is no more `seen`, at most for `timeout`.
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
    spin_wait_.wait_for(count_, timeout, [&](std::uint32_t count) { return count != seen; });
  }

 private:
  SpinWait spin_wait_;
  SpinWait::Word count_{0};
  std::mutex mutex_;  ///< of the next
  /// Per thread: a count, or one of these.
  std::vector<std::int64_t> idle_since_;
  static constexpr std::int64_t kBusy = -1, kOver = -2;
};

}  // namespace alpa::cuda
