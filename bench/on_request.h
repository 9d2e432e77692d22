#pragma once
/// Steps on request: programs of other frameworks are timed in turns with alpa's.
#include <fmt/core.h>

#include <cstdio>
#include <functional>
#include <iostream>

#include "src/base/timing.h"

namespace alpa::bench {

/// Reads numbers of steps from standard input, a line each, runs so many and prints their seconds.
inline void answer(const std::function<void()>& step) {
  for (int steps = 0; std::cin >> steps;) {
    const Stopwatch watch;
    for (int i = 0; i < steps; ++i) step();
    fmt::print("{:.6g}\n", watch.seconds());
    std::fflush(stdout);
  }
}

}  // namespace alpa::bench
