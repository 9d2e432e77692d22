#pragma once
/// Plans in which no device repeats another's contraction (Alpa's allow_recompute_heavy_op =
/// false). Published objectives count communication only, with which repeating all work is free.
#include <doctest/doctest.h>

#include <algorithm>

#include "src/ilp/solve.h"
#include "src/ir/op_def.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/strategy.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/space/planning_cache.h"
#include "src/search/space/search_space.h"

namespace alpa::testing {

/// Leaves the strategies that use the most devices.
inline void keep_most_split(intra_op::NodeStrategies& node, const DeviceMesh& mesh) {
  int most = 0;
  for (const Strategy& strategy : node.strategies)
    most = std::max(most, intra_op::devices_used(strategy, mesh));
  const auto filter = [&, strategies = node.strategies](auto& each) {
    std::size_t kept = 0;
    for (std::size_t s = 0; s < strategies.size(); ++s)
      if (intra_op::devices_used(strategies[s], mesh) == most) each[kept++] = each[s];
    each.resize(kept);
  };
  filter(node.strategies);
  filter(node.seconds);
  for (std::vector<int>& specs : node.operand_specs) filter(specs);
  for (std::vector<int>& specs : node.result_specs) filter(specs);
}

/// The optimal plan of those in which every product is split over as many devices as it can be.
inline ShardingPlan plan_without_repeats(const Graph& graph, const DeviceMesh& mesh,
                                         const cost::CostModel& given,
                                         const intra_op::AutoShardOptions& options = {}) {
  const cost::CostModel model = intra_op::allowed_model(given, options);
  intra_op::PlanningCache cache;
  intra_op::MeshFacts& facts = cache.of(mesh, model);
  intra_op::SearchSpace space = intra_op::search_space(graph, options, facts);
  std::vector<bool> is_split(space.choices.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const int choices = space.of_node[n];
    if (graph.nodes[n].op->work != Work::heavy || is_split[choices]) continue;
    keep_most_split(space.choices[choices], mesh);
    is_split[choices] = true;
  }
  const intra_op::Instance instance = intra_op::build_instance(graph, space, mesh);
  ilp::Options solver;
  solver.methods.elimination_cells = 1 << 24;
  solver.methods.presolve.merge = false;
  const ilp::Solution solution = ilp::solve(instance.problem, solver);
  CHECK(solution.optimal);
  ShardingPlan plan =
      intra_op::assemble_plan(graph, space, instance, solution.choice, mesh, facts.prices);
  plan.method = options.method;
  plan.cost = intra_op::evaluate(plan, *space.graph, model);
  if (solution.optimal) plan.cost.lower_bound_seconds = plan.cost.objective_seconds;
  return plan;
}

}  // namespace alpa::testing
