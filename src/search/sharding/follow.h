#pragma once
/// Plans a step along the plan of another step that works on the same state. Nothing is searched.
#include "alpa/plan/sharding_plan.h"
#include "src/plan/cost/cost_model.h"

namespace alpa::intra_op {

/// A plan and its graph.
struct LeadingPlan {
  const Graph& graph;
  const ShardingPlan& plan;
};

/// The plan of `graph` on the leader's mesh, method "follow". State has the leader's layout. A node
/// that the leader's graph has, too, has its strategy there, as far as shapes allow: batches may
/// differ in size. Any other node has the strategy that is cheapest given the specs of its
/// operands. Nothing is proven of its cost, and its statistics are 0. Throws Error if `graph` reads
/// state that the leader lacks, or if it needs a collective that `model` forbids.
ShardingPlan follow(const LeadingPlan& leader, const Graph& graph, const cost::CostModel& model);

}  // namespace alpa::intra_op
