// src/processes/sibling_watch.cc — finds processes of this host that are stopped
#include "src/processes/sibling_watch.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

namespace alpa::processes {

SiblingWatch::SiblingWatch(std::chrono::milliseconds patience,
                           std::function<void(const Sibling&, bool)> found,
                           std::chrono::milliseconds limit, std::function<void()> late)
    : found_(std::move(found)), limit_(limit), late_(std::move(late)), thread_([this, patience] {
        if (late_) ::prctl(PR_SET_NAME, kJoining);
        watch(patience);
      }) {}

SiblingWatch::~SiblingWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// Looks rarely: reading /proc takes time, and most launches are joined before the first look.
void SiblingWatch::watch(std::chrono::milliseconds patience) {
  constexpr int kLooks = 4;  // in a row that find it stopped
  Sibling lost;
  std::map<int, int> stopped;  // by rank: in how many; 0 for one that has ended, too
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, patience / kLooks, [&] { return over_; })) {
    if (late_ && std::chrono::steady_clock::now() - begin >= limit_) return late_();
    int self = -1;
    for (const Sibling& sibling : siblings()) {
      int& looks = stopped[sibling.rank];
      looks = sibling.stopped ? looks + 1 : 0;
      if (sibling.pid == ::getpid()) self = sibling.rank;
      if (looks == kLooks) lost = sibling;
    }
    if (lost.pid == 0) continue;
    const auto first = std::find_if(stopped.begin(), stopped.end(),
                                    [](const auto& entry) { return entry.second == 0; });
    return found_(lost, first != stopped.end() && first->first == self);
  }
}

}  // namespace alpa::processes
