#pragma once
/// A machine that does other things, too.
#include <atomic>
#include <thread>

namespace alpa::testing {

/// Keeps a core busy.
class BusyThread {
 public:
  ~BusyThread() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_{[this] {
    while (!over_) continue;
  }};
};

}  // namespace alpa::testing
