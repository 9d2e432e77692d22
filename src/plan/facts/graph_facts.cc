// Computes the facts of a graph
#include "src/plan/facts/graph_facts.h"

#include "alpa/base/error.h"
#include "src/ir/lasting.h"

namespace alpa::intra_op {

GraphFacts::GraphFacts(const Graph& g, KnownRules* known, const std::vector<LoopShare>* shares,
                       bool copies_once)
    : graph(g),
      classes(classify(g, known, shares)),
      uses(uses_of_values(g, copies_once)),
      accumulators(accumulators_of_values(g)),
      held(held_values(g)) {}

const Lifetimes& GraphFacts::lifetimes() const {
  if (!lifetimes_) {
    std::vector<int> points = points_of_nodes(graph, classes);
    std::vector<LivePoints> values =
        live_ranges(graph, classes, points, last_reads(graph, uses, points));
    lifetimes_ = {std::move(points), std::move(values)};
  }
  return *lifetimes_;
}

ShardingSpec wanted_spec(const GraphFacts& facts, const ShardingPlan& plan, const Use& use) {
  const int index = use.id.index;
  switch (use.id.kind) {
    case UseKind::node:
      return operand_spec(facts.classes.of(index).rule, plan.strategies[index], plan.mesh,
                          use.operand);
    case UseKind::update: {
      const int input = facts.graph.values[facts.graph.updates[index].input].producer;
      return result_spec(facts.classes.of(input).rule, plan.strategies[input], plan.mesh);
    }
    case UseKind::metric: return ShardingSpec::replicated();
    case UseKind::output: return plan.specs[use.source];
  }
  bug("unknown kind of use {}", static_cast<int>(use.id.kind));
}

}  // namespace alpa::intra_op
