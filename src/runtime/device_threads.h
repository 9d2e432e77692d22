#pragma once
/// A fixed number of threads, including the caller's, that all run one job at a time. Thread rule:
/// `run` is called by one thread at a time.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "src/base/spin_wait.h"

namespace alpa::runtime {

class DeviceThreads {
 public:
  /// `size` >= 1, the caller included. Throws Error if a thread cannot be started.
  explicit DeviceThreads(int size);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls job(0) … job(size - 1), each on its own thread, job(0) on the caller's; returns when all
  /// are done. The job must not throw. Allocates nothing.
  template <class Job>
  void run(Job&& job) {
    start(caller<std::remove_reference_t<Job>>, &job);
    job(0);
    finish();
  }

  /// Starts job(1) … job(size - 1) on the other threads. `job` must stay until they are done.
  template <class Job>
  void start(Job& job) {
    start(caller<Job>, &job);
  }
  /// Waits at most for `timeout`. True if all jobs are done.
  bool finish_within(std::chrono::nanoseconds timeout);
  void finish();
  /// Gives up threads that are not done: they end when their job does, and may use this until
  /// then, so it must never be destroyed.
  void abandon();

 private:
  template <class Job>
  static void caller(void* context, int index) {
    (*static_cast<Job*>(context))(index);
  }
  void start(void (*job)(void*, int), void* context);
  void work(int index);
  void dismiss();  ///< lets all threads return

  SpinWait spin_wait_;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> dismissed_{false};
  SpinWait::Word epoch_{0}, pending_{0};
  std::vector<std::thread> threads_;
};

}  // namespace alpa::runtime
