#pragma once
/// Fields that all plan files have.
#include <string>
#include <utility>

#include "alpa/plan/sharding_plan.h"
#include "src/base/json_place.h"

namespace alpa::intra_op {

/// The fields of a plan's cost and of its statistics, by their names in files.
inline constexpr std::pair<const char*, double PlanCost::*> kCostFields[] = {
    {"objective_seconds", &PlanCost::objective_seconds},
    {"compute_seconds", &PlanCost::compute_seconds},
    {"communication_seconds", &PlanCost::communication_seconds},
    {"lower_bound_seconds", &PlanCost::lower_bound_seconds}};
inline constexpr std::pair<const char*, int PlannerStatistics::*> kStatisticsFields[] = {
    {"nodes", &PlannerStatistics::nodes},
    {"strategies", &PlannerStatistics::strategies},
    {"variables", &PlannerStatistics::variables},
    {"constraints", &PlannerStatistics::constraints}};

/// The plan file of `plan` as a value. Throws Error as `verify` does.
nlohmann::ordered_json plan_json(const ShardingPlan& plan, const Graph& graph);

/// How many uses of this kind the graph has.
int count_of(const Graph& graph, UseKind kind);

/// The structural hash of a graph, as plan files have it.
std::string hash_text(const Graph& graph);

/// Throws Error unless a plan file's "graph" is the hash of this one.
void check_graph(const JsonPlace& file, const Graph& graph);

}  // namespace alpa::intra_op
