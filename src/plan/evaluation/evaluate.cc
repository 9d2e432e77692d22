// Seconds of a plan, from its strategies and resharding steps alone
#include <numeric>

#include "src/plan/evaluation/evaluate.h"

namespace alpa {
namespace {

/// Sum of each(spec before the step, step) over the steps of a path.
template <class Each>
double sum_along(const ReshardPath& path, ShardingSpec spec, const Each& each) {
  double sum = 0;
  for (const ReshardStep& step : path.steps) {
    sum += each(spec, step);
    spec = step.to;
  }
  return sum;
}

}  // namespace

double intra_op::path_seconds(const TensorType& type, const ShardingSpec& from,
                              const ReshardPath& path, const DeviceMesh& mesh,
                              const cost::ReshardModel& model) {
  return sum_along(path, from, [&](const ShardingSpec& spec, const ReshardStep& step) {
    return cost::step_seconds(type, spec, step, mesh, model);
  });
}

double intra_op::path_sent_bytes(const TensorType& type, const ShardingSpec& from,
                                 const ReshardPath& path, const DeviceMesh& mesh) {
  return sum_along(path, from, [&](const ShardingSpec& spec, const ReshardStep& step) {
    return cost::step_sent_bytes(type, spec, step, mesh);
  });
}

std::vector<ShardingSpec> intra_op::starts_of_reshards(const ShardingPlan& plan,
                                                       const intra_op::GraphFacts& facts) {
  std::vector<ShardingSpec> starts;
  starts.reserve(plan.reshards.size());
  for (const PlannedReshard& r : plan.reshards)
    starts.push_back(plan.specs[intra_op::source_of_use(facts.graph, facts.accumulators, r.value,
                                                        r.uses.front())]);
  return starts;
}

int intra_op::runs_of(const PlannedReshard& reshard, const Graph& graph) {
  if (reshard.once) return 1;
  return region_of_use(graph, reshard.uses.front()) == Region::apply ? 1 : graph.num_micro_batches;
}

PlanCost evaluate(const ShardingPlan& plan, const Graph& graph, const cost::CostModel& model) {
  return intra_op::evaluate(plan, intra_op::GraphFacts(graph), model);
}

intra_op::PartSeconds intra_op::part_seconds(const ShardingPlan& plan,
                                             const intra_op::GraphFacts& facts,
                                             const cost::CostModel& model) {
  const Graph& graph = facts.graph;
  const intra_op::NodeClasses& classes = facts.classes;
  intra_op::PartSeconds seconds;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    seconds.nodes.push_back(
        runs_per_step(graph, graph.nodes[n]) *
        (intra_op::node_seconds(classes.of(n), classes.share_of(n), plan.strategies[n], plan.mesh,
                                model) +
         intra_op::cuts_before(n, graph, classes, plan.strategies, plan.mesh, model)));
  const std::vector<ShardingSpec> starts = intra_op::starts_of_reshards(plan, facts);
  for (std::size_t r = 0; r < starts.size(); ++r) {
    const PlannedReshard& reshard = plan.reshards[r];
    seconds.reshards.push_back(intra_op::runs_of(reshard, graph) *
                               intra_op::path_seconds(graph.type(reshard.value), starts[r],
                                                      reshard.path, plan.mesh, model.reshard));
  }
  return seconds;
}

PlanCost intra_op::evaluate(const ShardingPlan& plan, const intra_op::GraphFacts& facts,
                            const cost::CostModel& model) {
  const intra_op::PartSeconds seconds = intra_op::part_seconds(plan, facts, model);
  PlanCost cost;
  cost.compute_seconds = std::accumulate(seconds.nodes.begin(), seconds.nodes.end(), 0.0);
  cost.communication_seconds =
      std::accumulate(seconds.reshards.begin(), seconds.reshards.end(), 0.0);
  cost.objective_seconds = cost.compute_seconds + cost.communication_seconds;
  return cost;
}

}  // namespace alpa
