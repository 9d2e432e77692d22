#pragma once
/// Predicted seconds of a stage.
#include <functional>
#include <vector>

#include "alpa/plan/pipeline_plan.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/schedules/timeline.h"

namespace alpa {

/// The seconds of a stage under its plan, without transfers.
StageSeconds stage_seconds(const ShardingPlan& plan, const Graph& graph,
                           const cost::CostModel& model);

/// Seconds that the host takes to launch the operators of a forward and of a backward run, which
/// these take at least; 0 unless the software says so.
StageSeconds launched_seconds(const Graph& graph, const SoftwareModel& software);

/// Seconds of a run of a schedule, without those of transfers.
double run_seconds(const StageSeconds& stage, const pipeline::RegionRun& run);

/// Predicted seconds of a step by its schedule: of its stages, and of what each passes to the next
/// one and back.
using PlayedSeconds = std::function<double(const std::vector<StageSeconds>& stages,
                                           const std::vector<double>& transfers)>;

/// By this schedule, of stages on devices of their own. Per transfer the seconds of a micro-batch,
/// there and back.
PlayedSeconds played_seconds(ScheduleKind kind, int micro_batches);

}  // namespace alpa
