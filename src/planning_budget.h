#pragma once
/// Searches for the best plan whose lowered program keeps the memory budget. The planner counts
/// bytes; only lowering knows the exact peak.
#include <cstdint>
#include <functional>

#include "alpa/executable.h"
#include "pipeline_planning.h"
#include "src/intra_op/search/auto_shard.h"

namespace alpa {

/// Lowers a plan: `memory_bytes` of the result is the exact peak of a device.
using LowerPlan = std::function<CompiledStep(ShardingPlan plan)>;

/// The best plan without a budget if its peak keeps `budget` (bytes per device); otherwise the best
/// that is found with the planner's own limit moved until a peak does. Throws Error if none is
/// found: the smallest peak met and how to mend it, or why there can be none.
CompiledStep plan_within_budget(intra_op::AutoSharding& search, std::int64_t budget,
                                const LowerPlan& lower);

/// Lowers planned stages; says what each takes (StagePlan::memory).
using LowerStages = std::function<CompiledStep(std::vector<StagePlan> stages)>;

/// The same for a step in stages: those that exceed the budget get plans with less memory. Stages
/// that are searched for are searched for again if that does not suffice. The result exceeds the
/// budget if no plan that was found keeps it. Throws what `StagePlanner::choose` throws at first.
CompiledStep plan_stages_within_budget(StagePlanner& planner, bool searched, std::int64_t budget,
                                       const LowerStages& lower);

}  // namespace alpa
