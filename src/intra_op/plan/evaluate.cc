// Seconds of a plan, from its strategies and resharding steps alone
#include <algorithm>
#include <numeric>

#include "alpa/base/error.h"
#include "alpa/intra_op/plan.h"
#include "src/intra_op/plan/evaluate.h"

namespace alpa {
namespace {

std::int64_t extent_of(const TensorType& type, const ShardingSpec& spec, int dim,
                       const DeviceMesh& mesh) {
  return shard_extent(type.shape[dim], spec, dim, mesh, std::vector<int>(mesh.num_axes(), 0))
      .extent;
}

/// Bytes as collective_seconds wants them: of the local operand for all_reduce, else of all
/// parts, n times the largest.
double collective_bytes(const TensorType& type, const ShardingSpec& from, const ReshardStep& step,
                        const DeviceMesh& mesh) {
  const double before = static_cast<double>(shard_bytes(type, from, mesh)),
               n = mesh.size(step.axes.front());
  switch (step.kind) {
    case CollectiveKind::all_reduce: return before;
    case CollectiveKind::all_gather: return n * before;
    case CollectiveKind::reduce_scatter:
      return n * static_cast<double>(shard_bytes(type, step.to, mesh));
    case CollectiveKind::all_to_all:
      return n * before /
             static_cast<double>(std::max<std::int64_t>(1, extent_of(type, from, step.dim, mesh))) *
             static_cast<double>(extent_of(type, step.to, step.dim, mesh));
    default: bug("{} is not a collective", name_of(step.kind));
  }
}

/// True if the parts of a device's shard along `dim` are not contiguous under `spec`.
bool needs_packing(const TensorType& type, const ShardingSpec& spec, int dim,
                   const DeviceMesh& mesh) {
  for (int outer = 0; outer < dim; ++outer) {
    if (extent_of(type, spec, outer, mesh) > 1) return true;
  }
  return false;
}

/// Bytes that a step reads and writes on the device itself.
double local_bytes(const TensorType& type, const ShardingSpec& from, const ReshardStep& step,
                   const DeviceMesh& mesh) {
  const double before = 2 * static_cast<double>(shard_bytes(type, from, mesh)),
               after = 2 * static_cast<double>(shard_bytes(type, step.to, mesh));
  switch (step.kind) {
    case CollectiveKind::slice:
    case CollectiveKind::to_partial: return after;
    case CollectiveKind::all_reduce: return 0;
    case CollectiveKind::reduce_scatter:
      return needs_packing(type, from, step.dim, mesh) ? before : 0;
    case CollectiveKind::all_gather:
      return needs_packing(type, step.to, step.dim, mesh) ? after : 0;
    case CollectiveKind::all_to_all:
      return (needs_packing(type, from, step.dim, mesh) ? before : 0) +
             (needs_packing(type, step.to, step.from_dim, mesh) ? after : 0);
    default: bug("{} changes no layout", name_of(step.kind));
  }
}

double step_seconds(const TensorType& type, const ShardingSpec& from, const ReshardStep& step,
                    const DeviceMesh& mesh, const cost::ReshardModel& model) {
  if (step.axes.size() == 1 && mesh.size(step.axes[0]) == 1) return 0;
  double seconds = model.launch_seconds;
  if (model.memory_bytes_per_second > 0)
    seconds += local_bytes(type, from, step, mesh) / model.memory_bytes_per_second;
  if (step.kind == CollectiveKind::to_partial) seconds += cost::to_partial_tail(model.collectives);
  if (!exchanges(step.kind)) return seconds;
  return seconds + cost::collective_seconds(step.kind, collective_bytes(type, from, step, mesh),
                                            mesh, step.axes, model.collectives);
}

}  // namespace

double intra_op::path_seconds(const TensorType& type, const ShardingSpec& from,
                              const ReshardPath& path, const DeviceMesh& mesh,
                              const cost::ReshardModel& model) {
  double seconds = 0;
  ShardingSpec spec = from;
  for (const ReshardStep& step : path.steps) {
    seconds += step_seconds(type, spec, step, mesh, model);
    spec = step.to;
  }
  return seconds;
}

double intra_op::path_sent_bytes(const TensorType& type, const ShardingSpec& from,
                                 const ReshardPath& path, const DeviceMesh& mesh) {
  double bytes = 0;
  ShardingSpec spec = from;
  for (const ReshardStep& step : path.steps) {
    int devices = 1;
    for (int axis : step.axes) devices *= mesh.size(axis);
    if (exchanges(step.kind))
      bytes +=
          cost::collective_sent_bytes(step.kind, collective_bytes(type, spec, step, mesh), devices);
    spec = step.to;
  }
  return bytes;
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
