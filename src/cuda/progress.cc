// src/cuda/progress.cc — who waits for whom among the threads of a step's cards
#include "progress.h"

#include <algorithm>

namespace alpa::cuda {

void Progress::begin_step() {
  const std::lock_guard lock(mutex_);
  std::fill(idle_since_.begin(), idle_since_.end(), kBusy);
}

bool Progress::is_stuck(int index, std::uint32_t seen) {
  const std::lock_guard lock(mutex_);
  idle_since_[index] = seen;
  return count() == seen &&
         std::all_of(idle_since_.begin(), idle_since_.end(), [&](std::int64_t since) {
           return since == kOver || since == static_cast<std::int64_t>(seen);
         });
}

void Progress::finish(int index) {
  const std::lock_guard lock(mutex_);
  idle_since_[index] = kOver;
}

}  // namespace alpa::cuda
