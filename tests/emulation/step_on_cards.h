#pragma once
/// Steps whose operators run through engines of cuDNN, as programs run them.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "emulation/on_machine.h"

namespace alpa::testing {

struct StepsOnCards {
  std::vector<double> losses;
  std::int64_t planned, measured;
};

inline StepsOnCards run_on_cards(const TrainingStep& step, const BatchData& batch, int devices,
                                 const std::string& backend, bool tune) {
  ShardParallel method;
  method.executor.tune = tune;
  const Executable executable = parallelize(step, method, Cluster::local(devices, backend));
  TrainState state = executable.init(0);
  StepsOnCards result;
  for (int i = 0; i < 5; ++i) result.losses.push_back(executable.run(state, batch).loss());
  result.planned = executable.memory_bytes(), result.measured = executable.measured_bytes(state);
  return result;
}

/// Two devices on one card and on two, with engines measured and not, against one CPU device: its
/// losses within a share of them, the planned bytes, and an engine of cuDNN at the end.
inline void check_step_on_cards(const TrainingStep& step, const BatchData& batch, double share) {
  const StepsOnCards expected = run_on_cards(step, batch, 1, "cpu", false);
  for (const int cards : {1, 2})
    for (const bool tune : {false, true}) {
      const On machine({.devices = cards});
      const StepsOnCards got = run_on_cards(step, batch, 2, "cuda", tune);
      for (std::size_t i = 0; i < got.losses.size(); ++i)
        CHECK(got.losses[i] == doctest::Approx(expected.losses[i]).epsilon(share));
      CHECK(got.measured == got.planned);
      CHECK(emulation::last_engine() >= 0);
    }
}

}  // namespace alpa::testing
