#pragma once
/// A schedule played on a clock, without devices: when each run begins, how long the step takes,
/// how many micro-batches a mesh holds.
#include <functional>
#include <string>
#include <vector>

#include "src/plan/schedules/schedule.h"

namespace alpa::pipeline {

/// Clocks that one run of each region takes on one stage. Transfers take none.
struct RunClocks {
  int forward = 1;
  int backward = 1;  ///< of a split one: the gradients of inputs
  int weights = 1;   ///< of a split one: the gradients of weights
  int apply = 1;
};

/// How long runs and transfers take, in clocks or in seconds.
struct RunTimes {
  std::function<double(int stage, const RegionRun& run)> run;
  /// from one stage to a neighbour, per micro-batch
  std::function<double(int from, int to)> transfer;
};

struct TimedRun {
  RegionRun run;
  double begin = 0, end = 0;  ///< on the clock; `end` is exclusive
};

struct Timeline {
  std::vector<std::vector<TimedRun>> meshes;  ///< per mesh, in order
  int micro_batches = 0;
  double clocks = 0;  ///< end of the last run
  /// Per mesh, the most micro-batches that have run forward there and not yet all of backward,
  /// summed over its stages.
  std::vector<int> in_flight;
  /// False: runs that wait for each other are left out.
  bool complete = true;

  /// The share of the time in which a mesh waits, mean over the meshes.
  double bubble() const;
};

/// Every run begins as soon as the previous one of its mesh has ended, forward of the previous
/// stage, backward of the next one (gradients of weights: of the same one), and what they send has
/// arrived; apply once all runs of all meshes have ended.
Timeline play(const PipelineSchedule& schedule, const RunTimes& times);
Timeline play(const PipelineSchedule& schedule, const RunClocks& clocks = {});

/// A timeline in whole clocks: "mesh 2 mb 4 clocks 11", then per mesh "  m0: F0 F1 . B0 …" with a
/// column per clock ('.':
/// idle, A: apply, named after the last micro-batch), and "  max in flight [2, 1]".
std::string to_string(const Timeline& timeline);

}  // namespace alpa::pipeline
