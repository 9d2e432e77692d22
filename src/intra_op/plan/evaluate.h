#pragma once
/// Prices of plans and of their reshardings, independent of the search that found them.
#include "alpa/intra_op/plan.h"
#include "src/cost/reshard.h"
#include "src/intra_op/facts/graph_facts.h"

namespace alpa::intra_op {

/// As `evaluate` in plan.h.
PlanCost evaluate(const ShardingPlan& plan, const GraphFacts& facts, const cost::CostModel& model);

/// Seconds per step of every node (its cuts among them) and of every resharding.
struct PartSeconds {
  std::vector<double> nodes, reshards;
};
PartSeconds part_seconds(const ShardingPlan& plan, const GraphFacts& facts,
                         const cost::CostModel& model);

/// Seconds of one run of `path` from spec `from`.
double path_seconds(const TensorType& type, const ShardingSpec& from, const ReshardPath& path,
                    const DeviceMesh& mesh, const cost::ReshardModel& model);

/// Bytes one device sends in one run.
double path_sent_bytes(const TensorType& type, const ShardingSpec& from, const ReshardPath& path,
                       const DeviceMesh& mesh);

/// Spec from which each resharding of `plan` starts: that in which its uses find the value.
std::vector<ShardingSpec> starts_of_reshards(const ShardingPlan& plan, const GraphFacts& facts);

/// How often a resharding runs in one step: as often as its first use.
int runs_of(const PlannedReshard& reshard, const Graph& graph);

}  // namespace alpa::intra_op
