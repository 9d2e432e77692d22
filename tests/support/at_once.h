#pragma once
/// Runs that mostly wait, such as for the end of a silence, several at a time.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace alpa::testing {

/// Calls body(0) to body(count - 1), each on one of `threads` threads. They may assert, not throw.
inline void at_once(int count, const std::function<void(int)>& body, int threads = 8) {
  std::atomic<int> next = 0;
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back([&] {
      for (int i = next++; i < count; i = next++) body(i);
    });
  for (std::thread& thread : all) thread.join();
}

}  // namespace alpa::testing
