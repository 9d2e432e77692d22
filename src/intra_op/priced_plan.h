#pragma once
/// A plan with the facts and the prices that its explanation reads.
#include "path_cost.h"

namespace alpa {

/// `plan` and `model` must outlive it, and so must the graph.
struct PricedPlan {
  PricedPlan(const ShardingPlan& p, const Graph& g, const CostModel& m)
      : plan(p), graph(g), model(m), facts(g), seconds(part_seconds(p, facts, m)) {}

  const ShardingPlan& plan;
  const Graph& graph;
  const CostModel& model;
  const GraphFacts facts;
  const PartSeconds seconds;
};

}  // namespace alpa
