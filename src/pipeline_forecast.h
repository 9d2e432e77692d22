#pragma once
/// What is predicted of a pipelined step: its transfers, and when each stage runs.
#include <vector>

#include "alpa/executable.h"
#include "src/pipeline/schedule.h"
#include "src/pipeline/timeline.h"

namespace alpa {

/// The order in which the stages of a compiled step run; empty: it has no stages. Of a step that is
/// not lowered yet, in rounds of `at_once` micro-batches; 0: of all.
pipeline::PipelineSchedule schedule_of(const CompiledStep& step, int at_once = 0);

/// What the stages of the joined `program` send each other, by pair of stages.
std::vector<StageTransfer> transfers_of(const spmd::SpmdProgram& program, const Cluster& cluster);

/// The schedule of a step with stages (`schedule_of`), played with the predicted seconds of stages
/// and transfers.
pipeline::Timeline forecast(const CompiledStep& step, int at_once = 0);

}  // namespace alpa
