#pragma once
/// Steps on request: programs of other frameworks are timed in turns with alpa's.
#include <alpa/alpa.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>

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

/// A step that is compiled now, and runs on this batch whenever it is called. Says on stderr what
/// was planned.
inline std::function<void()> runner(const TrainingStep& step, const Method& method, int devices,
                                    const std::map<std::string, Array>& batch) {
  const Executable executable = parallelize(step, method, Cluster::local(devices));
  fmt::print(stderr, "{}\n{} bytes per device\n", to_string(executable.planned()),
             executable.memory_bytes());
  auto state = std::make_shared<TrainState>(executable.init(0));
  return [=] { executable.run(*state, batch); };
}

}  // namespace alpa::bench
