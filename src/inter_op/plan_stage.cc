// src/inter_op/plan_stage.cc — plans a stage, with less memory where its best plan has too much
#include "plan_stage.h"

#include <set>

#include "src/intra_op/plan/evaluate.h"
#include "src/ir/input.h"
#include "src/ir/lasting.h"
#include "tuning.h"

namespace alpa {
namespace {

/// Bytes of a device, the first one, that a micro-batch in flight keeps for its backward run.
std::int64_t kept_bytes(const Graph& graph, const ShardingPlan& plan) {
  std::set<int> kept;
  for (const Node& node : graph.nodes)
    for (int value : node.operands)
      if (node.region == Region::backward && graph.producer(value).region == Region::forward)
        kept.insert(value);
  std::int64_t bytes = 0;
  const std::vector<int> first_device = plan.mesh.coordinates(0);
  const std::vector<bool> lasting = lasting_values(graph);
  for (int value : kept) {
    const Input* input = find_input(graph, value);
    const TensorType& type = graph.type(value);
    if (!input || (input->kind == InputKind::boundary && !lasting[value]))
      bytes += TensorType{type.dtype,
                          local_shape(type.shape, plan.specs[value], plan.mesh, first_device)}
                   .bytes();
  }
  return bytes;
}

}  // namespace

CountedBytes counted_bytes(const Graph& graph, const ShardingPlan& plan) {
  return {intra_op::peak_memory(plan, graph).bytes, kept_bytes(graph, plan)};
}

ShardingPlan plan_stage(const Graph& graph, const std::vector<DeviceMesh>& meshes,
                        const StageLimit& limit, const PlanningContext& planning) {
  intra_op::AutoSharding search(graph, meshes, planning.model, planning.options, &planning.cache);
  return plan_stage(graph, search, limit, planning.options.method);
}

ShardingPlan plan_stage(const Graph& graph, intra_op::AutoSharding& search, const StageLimit& limit,
                        std::string_view method) {
  ShardingPlan plan = search.plan();
  for (int attempt = 0; attempt < inter_op::kTuning.plan_stage.attempts; ++attempt) {
    const CountedBytes bytes = counted_bytes(graph, plan);
    const std::int64_t excess = bytes.with(limit.in_flight) - limit.bytes;
    if (excess <= 0) return plan;
    if (bytes.peak <= excess) break;
    plan = search.plan(bytes.peak - excess);
  }
  throw intra_op::OverBudget(
      fmt::format("method {}: no plan of a stage with {} micro-batches in flight fits into {} "
                  "bytes per device",
                  method, limit.in_flight, limit.bytes),
      search.is_over() ? intra_op::NoPlan::out_of_time : intra_op::NoPlan::not_found);
}

}  // namespace alpa
