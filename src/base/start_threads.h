#pragma once
/// Starts several threads: all or none.
#include <exception>
#include <string_view>
#include <thread>
#include <vector>

#include "src/base/low_memory.h"

namespace alpa {

/// Throws Error: only `started` of `wanted` threads of `whose` could be started, with the
/// reason from the exception.
[[noreturn]] void fail_to_start(std::string_view whose, int started, int wanted,
                                const std::exception_ptr& thrown);

/// Adds `count` threads to `threads`; thread i runs body(i). If one cannot be started, calls
/// `stop`, which makes the others return, joins them and throws Error.
template <class Body, class Stop>
void start_threads(std::vector<std::thread>& threads, int count, std::string_view whose,
                   const Body& body, Stop&& stop) {
  load_unwinder();
  int started = 0;
  try {
    threads.reserve(threads.size() + count);
    for (; started < count; ++started) threads.emplace_back(body, started);
  } catch (...) {
    stop();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    fail_to_start(whose, started, count, std::current_exception());
  }
}

}  // namespace alpa
