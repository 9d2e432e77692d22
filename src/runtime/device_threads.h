#pragma once
/// A fixed number of threads, including the caller's, that all run one job at a time. Thread rule:
/// `run` is called by one thread at a time.
#include <cstdint>
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
    start([](void* context,
             int index) { (*static_cast<std::remove_reference_t<Job>*>(context))(index); },
          &job);
  }

 private:
  void start(void (*job)(void*, int), void* context);
  void work(int index);
  void dismiss();  ///< lets all threads return

  SpinWait spin_wait_;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  SpinWait::Word epoch_{0}, pending_{0};
  std::vector<std::thread> threads_;
};

}  // namespace alpa::runtime
