#pragma once
/// What every example program does with its task: plans it, trains it, reports.
#include "models/common/flags.h"
#include "models/common/training.h"

namespace programs {

/// The step of a run of `--steps` steps.
alpa::TrainingStep step_of(const Flags& flags, const Task& task);

/// A whole program: plans the task, or trains it for `--steps` or `--epochs`. Prints the report and
/// writes the files that the flags name. `make_task` is called once. After a run, calls `after` for
/// the rest of the program. Throws Error at the end if a log of the run couldn't be written.
void run_task(
    Flags flags, const std::function<Task()>& make_task,
    const std::function<void(Run&)>& after = [](Run&) {});

}  // namespace programs
