#pragma once
/// A plan with the facts and the prices that its explanation reads.
#include "src/intra_op/plan/evaluate.h"

namespace alpa::intra_op {

/// `plan` and `model` must outlive it, and so must the graph.
struct PricedPlan {
  PricedPlan(const ShardingPlan& p, const Graph& g, const cost::CostModel& m)
      : plan(p), graph(g), model(m), facts(g), seconds(part_seconds(p, facts, m)) {}

  const ShardingPlan& plan;
  const Graph& graph;
  const cost::CostModel& model;
  const GraphFacts facts;
  const PartSeconds seconds;
};

/// As in plan.h.
std::string repeated_work_text(const PricedPlan& priced);

}  // namespace alpa::intra_op
