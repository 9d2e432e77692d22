#pragma once
/// Content of a plan's report as JSON. The report's page reads every number from it.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"

namespace alpa {

/// Numbers that a plan has by itself: method, seconds, bound, proof, bubble, schedule, bytes, its
/// stages and their transfers. Seconds are of a step unless a key says otherwise, bytes those of a
/// device.
nlohmann::ordered_json summary_json(const Plan& plan, std::int64_t memory_bytes);

/// `summary_json`, and its parts priced for devices of `cluster`: "time", "operators", "sharding",
/// "memory", "communication", "timeline", "assumptions".
nlohmann::ordered_json plan_numbers(const Plan& plan, const Cluster& cluster,
                                    std::int64_t memory_bytes);

/// The same of the costliest operators alone, some with their next best strategy, and "hand_made":
/// layouts that people choose, which are planned for it.
nlohmann::ordered_json report_json(const Plan& plan, const Cluster& cluster,
                                   std::int64_t memory_bytes);

}  // namespace alpa
