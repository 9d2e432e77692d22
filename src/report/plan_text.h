#pragma once
/// Plans in words.
#include <string>

#include "alpa/plan/pipeline_plan.h"
#include "src/plan/cost/cost_model.h"

namespace alpa {

/// The plan explained: of a step in stages, the lines of `to_string`, then stage by stage.
/// `memory_bytes`: the exact peak of a device.
std::string explain(const Plan& plan, const cost::CostModel& model, Detail detail,
                    std::int64_t memory_bytes);

}  // namespace alpa
