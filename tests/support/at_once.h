#pragma once
/// Runs that mostly wait, such as for the end of a silence, several at a time.
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace alpa::testing {

/// Calls body(0) to body(count - 1), each on one of `threads` threads. Throws the first of what
/// they throw, when all have ended.
inline void at_once(int count, const std::function<void(int)>& body, int threads = 8) {
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto work = [&] {
    for (int i = next++; i < count; i = next++) try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!thrown) thrown = std::current_exception();
      }
  };
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) all.emplace_back(work);
  for (std::thread& thread : all) thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace alpa::testing
