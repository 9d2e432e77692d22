#pragma once
/// What every example program does with its task: plans it, trains it, reports.
#include "models/common/flags.h"
#include "models/common/training.h"

namespace programs {

/// The step of a run of `--steps` steps.
alpa::TrainingStep step_of(const Flags& flags, const Task& task);

/// A whole program: plans the task, or trains it for `--steps` or `--epochs`. Prints the report and
/// writes the files that the flags name. `make_task` is called once. Returns the run, if there was
/// one.
std::optional<Run> run_task(Flags flags, const std::function<Task()>& make_task);

}  // namespace programs
