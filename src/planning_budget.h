#pragma once
/// Searches for the best plan whose lowered program keeps the memory budget. The planner counts
/// bytes; only lowering knows the exact peak.
#include <cstdint>
#include <functional>

#include "alpa/executable.h"
#include "src/intra_op/auto_shard.h"

namespace alpa {

/// Lowers a plan: `memory_bytes` of the result is the exact peak of a device.
using LowerPlan = std::function<CompiledStep(ShardingPlan plan)>;

/// The best plan without a budget if its peak keeps `budget` (bytes per device); otherwise the best
/// that is found with the planner's own limit moved until a peak does. Throws Error if none is
/// found: the smallest peak met and how to mend it, or why there can be none.
CompiledStep plan_within_budget(intra_op::AutoSharding& search, std::int64_t budget,
                                const LowerPlan& lower);

/// The same for a step in stages. `plan` plans and lowers it with a limit on the bytes that the
/// planner counts; a limit that no plan keeps: it throws intra_op::OverBudget. The first limit is
/// `first`. The result exceeds the budget if no plan that was found keeps it.
CompiledStep plan_stages_within_budget(std::int64_t budget, std::int64_t first,
                                       const std::function<CompiledStep(std::int64_t limit)>& plan);

}  // namespace alpa
