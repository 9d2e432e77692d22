// src/processes/sibling_watch.cc — finds processes of this host that are stopped
#include "src/processes/sibling_watch.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <map>
#include <utility>

namespace alpa::processes {

SiblingWatch::SiblingWatch(std::chrono::milliseconds patience,
                           std::function<void(const Sibling&, bool)> found)
    : found_(std::move(found)), thread_([this, patience] { watch(patience); }) {}

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
  std::map<std::int64_t, int> stopped;
  int first = INT_MAX;  // the lowest rank that was ever seen to run; it may have ended
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, patience / kLooks, [&] { return over_; })) {
    const std::vector<Sibling> all = siblings();
    int self = -1;
    for (const Sibling& sibling : all) {
      if (!sibling.stopped) first = std::min(first, sibling.rank);
      if (sibling.pid == ::getpid()) self = sibling.rank;
    }
    for (const Sibling& sibling : all) {
      int& looks = stopped[sibling.pid];
      looks = sibling.stopped ? looks + 1 : 0;
      if (looks < kLooks) continue;
      const auto first =
          std::find_if(all.begin(), all.end(), [](const Sibling& other) { return !other.stopped; });
      return found_(sibling, first != all.end() && first->pid == ::getpid());
    }
  }
}

}  // namespace alpa::processes
