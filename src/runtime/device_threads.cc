// src/runtime/device_threads.cc — starts one job on all device threads, and joins them
#include "device_threads.h"

#include "src/base/start_threads.h"

namespace alpa::runtime {

DeviceThreads::DeviceThreads(int size) : spin_wait_(size) {
  start_threads(
      threads_, size - 1, "devices", [this](int i) { work(i + 1); }, [this] { dismiss(); });
}

DeviceThreads::~DeviceThreads() {
  dismiss();
  for (std::thread& thread : threads_) thread.join();
}

void DeviceThreads::dismiss() {
  dismissed_ = true;
  ++epoch_;
  spin_wait_.wake(epoch_);
}

void DeviceThreads::start(void (*job)(void*, int), void* context) {
  job_ = job;
  context_ = context;
  pending_ = static_cast<std::uint32_t>(threads_.size());
  ++epoch_;
  spin_wait_.wake(epoch_);
}

void DeviceThreads::finish() {
  spin_wait_.wait(pending_, [](std::uint32_t pending) { return pending == 0; });
}

bool DeviceThreads::finish_within(std::chrono::nanoseconds timeout) {
  return spin_wait_.wait_for(pending_, timeout, [](std::uint32_t pending) { return pending == 0; });
}

void DeviceThreads::abandon() {
  dismiss();
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
}

void DeviceThreads::work(int index) {
  for (std::uint32_t seen = 0;; ++seen) {
    spin_wait_.wait(epoch_, [seen](std::uint32_t epoch) { return epoch != seen; });
    if (dismissed_) return;
    job_(context_, index);
    if (--pending_ == 0) spin_wait_.wake(pending_);
  }
}

}  // namespace alpa::runtime
