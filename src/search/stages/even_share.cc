// src/search/stages/even_share.cc — what every plan takes at least: operators, shared evenly
#include "src/search/stages/even_share.h"

#include "src/ir/rule.h"
#include "src/plan/facts/graph_facts.h"

namespace alpa::inter_op {
namespace {

/// FLOPs of the forward runs of a step.
double forward_flops(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes)
    if (node.region == Region::forward && !node.operands.empty())
      sum += runs_per_step(graph, node) * flops(rule_of(graph, node));
  return sum;
}

}  // namespace

double even_share_seconds(const Graph& few, const Graph& many, int devices,
                          const cost::CostModel& model) {
  constexpr double kRounding = 1e-9;
  if (forward_flops(many) < (1 - kRounding) * forward_flops(few)) return 0;
  const intra_op::GraphFacts facts(few);
  double shared = 0;
  for (int n = 0; n < std::ssize(few.nodes); ++n)
    shared +=
        runs_per_step(few, few.nodes[n]) *
        intra_op::least_node_seconds(facts.classes.of(n), facts.classes.share_of(n), devices, model)
            .shared;
  return shared / devices;
}

}  // namespace alpa::inter_op
