#pragma once
/// Predicted seconds of a stage.
#include "alpa/inter_op/plan.h"
#include "src/cost/cost_model.h"

namespace alpa {

/// The seconds of a stage under its plan, without transfers.
StageSeconds stage_seconds(const ShardingPlan& plan, const Graph& graph,
                           const cost::CostModel& model);

}  // namespace alpa
