#pragma once
/// Content of a plan's report as JSON. The report's page reads every number from it.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"

namespace alpa {

/// The plan's numbers, priced for devices of `cluster`. Seconds are of a step unless a key says
/// otherwise, bytes those of a device. Keys: "summary", "stages", "time", "operators", "sharding",
/// "memory", "timeline", "communication", "transfers", "assumptions", and those of the whole.
nlohmann::ordered_json plan_numbers(const Plan& plan, const Cluster& cluster,
                                    std::int64_t memory_bytes);

/// `plan_numbers`, and "hand_made": layouts that people choose, which are planned for it.
nlohmann::ordered_json report_json(const Plan& plan, const Cluster& cluster,
                                   std::int64_t memory_bytes);

}  // namespace alpa
