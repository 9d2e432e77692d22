#pragma once
/// What every example program does with its task: plans it, trains it, reports.
#include "models/common/flags.h"
#include "models/common/training.h"

namespace programs {

/// The step of a run of so many steps.
alpa::TrainingStep step_of(Flags flags, const Task& task, std::int64_t steps);

/// Trains on the devices of `cluster` as the flags say, prints the report and writes the
/// files that the flags name. `steps`: the number of training steps.
Run train_and_report(const Flags& flags, const alpa::Cluster& cluster, const Task& task,
                     std::int64_t steps);

/// Plans without running, and reports the plan.
void plan_and_report(const Flags& flags, const alpa::Cluster& cluster, const Task& task);

/// A whole program: plans the task or trains it for `--steps` steps. `make_task` is called once.
/// Returns the run, if there was one.
std::optional<Run> run_task(const Flags& flags, const std::function<Task()>& make_task);

}  // namespace programs
