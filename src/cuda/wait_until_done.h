#pragma once
/// Waiting for a card in a process that must not hang.
#include <chrono>
#include <thread>

#include "status.h"

namespace alpa::cuda {

/// Until `query()` gives cudaSuccess instead of cudaErrorNotReady; calls `still_well`, which throws
/// if that will never be, now and then. Throws Error for any other status.
template <class Query, class Check>
void wait_until_done(Query&& query, Check&& still_well) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::milliseconds(2), kAsk = std::chrono::milliseconds(50);
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point asked = begin;;) {
    const cudaError_t status = query();
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "waiting for the card");
    const Clock::time_point now = Clock::now();
    if (now - begin < kSpin) {
      std::this_thread::yield();
      continue;
    }
    if (now - asked > kAsk) still_well(), asked = now;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace alpa::cuda
