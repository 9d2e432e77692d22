// Plans a stage, with less memory where its best plan has too much
#include "src/search/stages/plan_stage.h"

namespace alpa {
ShardingPlan plan_stage(const Graph& graph, const std::vector<DeviceMesh>& meshes,
                        const StageLimit& limit, const PlanningContext& planning) {
  intra_op::AutoShardOptions options = planning.options;
  options.part.in_flight = limit.in_flight;
  intra_op::AutoSharding search(graph, meshes, planning.model, options, &planning.cache);
  return limit.bytes == kNoByteLimit ? search.plan() : search.plan(limit.bytes);
}

}  // namespace alpa
