#pragma once
/// Plans in words.
#include <string>

#include "alpa/inter_op/plan.h"
#include "src/cost/cost_model.h"

namespace alpa {

/// The meshes of the stages: "2x4", "2x2 + 4".
std::string meshes_text(const Plan& plan);

/// What is proven of a plan: "proven optimal", "within 0.44 % of optimal (no plan takes less than
/// 69 ms)", "along the plan of another step". Of stages without a bound, as they were given or as
/// time was over: "not compared with other stages, each alone proven optimal".
std::string proof_text(const Plan& plan);

/// Whether there is a bound, so that the gap says something.
bool has_bound(const Plan& plan);

/// The plan explained: of a step in stages, the lines of `to_string`, then stage by stage.
/// `memory_bytes`: the exact peak of a device.
std::string explain(const Plan& plan, const cost::CostModel& model, Detail detail,
                    std::int64_t memory_bytes);

}  // namespace alpa
