#pragma once
/// Hours and dollars of a training run on each of several clusters.
#include <cstdint>
#include <string>
#include <vector>

#include "tools/plan_methods.h"

namespace plan {

/// What is asked of a run, beside its plan. 0: not asked.
struct RunFlags {
  std::string prices;  ///< dollars an hour of a device: one, or one for each cluster
  std::string hosts;   ///< of --hosts: "1,2,4"
  std::int64_t tokens = 0, steps = 0;
  double deadline = 0;                ///< hours
  double mtbf = 0;                    ///< hours between failures of a host
  double write_bytes_per_second = 0;  ///< of checkpoints, of a host
};

/// The rows of --hosts, and those of a run.
std::vector<cli::Flag> rows_of_hosts(RunFlags& flags);
std::vector<cli::Flag> rows_of_run(RunFlags& flags);

/// A run that writes checkpoints, and goes back to the last one behind every failure.
struct RunTime {
  double seconds = 0;           ///< expected, from start to end
  double interval_seconds = 0;  ///< of work between two checkpoints; 0: there are none
  double restarts = 0;          ///< expected
};

/// The expected time of `work` seconds, if a checkpoint is written or read in `write` seconds and
/// failures are `mean` seconds apart, with exponential gaps: J. T. Daly, "A higher order estimate
/// of the optimum checkpoint interval" (2006), equations 20 and 37. Infinite: failures come faster
/// than a checkpoint is read.
RunTime run_time(double work, double write, double mean);

/// True if several clusters, numbers of hosts or a price are given.
bool asks_front(const PlanFlags& flags, const RunFlags& run);

/// Plans each cluster of --cluster with each number of --hosts, in equal parts of the time limit,
/// and prints hours, dollars, and which of them no other undercuts in both. Throws Error for flags
/// that do not go together.
void print_front(const PlanFlags& flags, const RunFlags& run, const Stoppable& stoppable);

}  // namespace plan
