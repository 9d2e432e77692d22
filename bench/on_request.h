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
#include "tools/common/flag_table.h"

namespace alpa::bench {

/// Where a step runs: on one device, or on several as a method plans.
struct Placement {
  int devices = 1;
  std::string of_several = "shard";

  Method method() const { return devices == 1 ? Method(Serial{}) : parse_method(of_several); }
};

/// How a step is timed.
struct Timing {
  Placement place = {};
  int rounds = 7;           ///< beside its limit
  bool on_request = false;  ///< instead
};

/// `timing` as flags, behind `own`.
inline std::vector<cli::Flag> with_timing(std::vector<cli::Flag> own, Timing& timing) {
  own.push_back(cli::whole("--devices", &timing.place.devices, "CPU devices", 1, 1024));
  own.push_back(cli::text("--method", &timing.place.of_several, "Of several devices"));
  own.push_back(cli::whole("--rounds", &timing.rounds, "Counted rounds", 1, 1000));
  own.push_back(
      cli::on("--on-request", &timing.on_request, "Answer numbers of steps with seconds"));
  return own;
}

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
inline std::function<void()> runner(const TrainingStep& step, const Placement& placement,
                                    const BatchData& batch) {
  const Executable executable =
      parallelize(step, placement.method(), Cluster::local(placement.devices));
  fmt::print(stderr, "{}\n{} bytes per device\n", to_string(executable.planned()),
             executable.memory_bytes());
  auto state = std::make_shared<TrainState>(executable.init(0));
  return [=] { executable.run(*state, batch); };
}

}  // namespace alpa::bench
