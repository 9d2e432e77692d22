// src/runtime/turns.cc — several devices on one thread
#include "turns.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "src/base/spin_wait.h"
#include "src/base/thread_team.h"

namespace alpa::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// A thread whose devices all wait looks at them for so long, then sleeps until the last one gets
/// on, but no longer than a moment: another one may get on before.
constexpr std::chrono::microseconds kLooking{50}, kMoment{100};

class Idle {
 public:
  explicit Idle(bool alone) : alone_(alone) {}
  void over() { idle_ = false; }

  void wait(Device& device) {
    if (alone_) return device.wait(std::nullopt);
    const Clock::time_point now = Clock::now();
    if (!std::exchange(idle_, true)) since_ = now;
    if (now - since_ < kLooking) return SpinWait::relax();
    device.wait(kMoment);
  }

 private:
  bool alone_, idle_ = false;
  Clock::time_point since_{};
};

}  // namespace

int threads_for(int devices, int threads_per_device) {
  const int threads = std::max(1, usable_cores() / threads_per_device);
  return devices < 2 * threads ? devices : threads;
}

std::vector<std::vector<int>> spread_over_threads(std::span<const int> meshes, int threads) {
  std::map<int, int> sizes, firsts, seen;
  for (int i = 0; i < std::ssize(meshes); ++i) {
    ++sizes[meshes[i]];
    firsts.try_emplace(meshes[i], i);
  }
  std::vector<std::vector<int>> devices(threads);
  for (int i = 0; i < std::ssize(meshes); ++i) {
    const int mesh = meshes[i];
    const int block = seen[mesh]++ * threads / std::max(sizes[mesh], threads);
    devices[(firsts[mesh] + block) % threads].push_back(i);
  }
  return devices;
}

void take_turns(std::span<Device* const> devices, const std::function<void()>& stop) {
  Idle idle(devices.size() == 1);
  for (;;) {
    bool moved = false;
    Device* waiting = nullptr;
    for (Device* device : devices) {
      if (device->over()) continue;
      moved = device->advance() || moved;
      if (device->failed()) stop();
      if (!device->over()) waiting = device;
    }
    if (!waiting) return;
    if (moved) idle.over();
    if (!moved || devices.size() == 1) idle.wait(*waiting);
    if (waiting->failed()) stop();
  }
}

}  // namespace alpa::runtime
