#pragma once
/// Plans in words.
#include <functional>
#include <string>

#include "alpa/plan/pipeline_plan.h"
#include "src/plan/cost/cost_model.h"

namespace alpa {

/// The plan explained: of a step in stages, the lines of `to_string`, then stage by stage.
/// `memory_bytes`: the exact peak of a device.
std::string explain(const Plan& plan, const cost::CostModel& model, Detail detail,
                    std::int64_t memory_bytes);

/// "state 3 MiB, accumulators 0, activations 2 MiB of 1 in flight, temporaries 1 MiB", bytes in the
/// words of `text`.
std::string memory_text(const StageMemory& memory, const std::function<std::string(double)>& text);

}  // namespace alpa
