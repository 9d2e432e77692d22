// src/report/report_hand_made.cc — what layouts that people choose by hand would cost
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/ir/graph.h"
#include "report_parts.h"
#include "src/base/timing.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/sharding/auto_shard.h"
#include "src/search/sharding/templates.h"
#include "src/search/stages/plan_stage.h"
#include "src/search/stages/stage_batch.h"
#include "src/search/stages/stage_meshes.h"

namespace alpa::page {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kHandMadeSeconds = 0.8;  ///< of a report, at most

/// Plans layouts of one stage, as many as there is time for.
class HandMadeLayouts {
 public:
  HandMadeLayouts(const StagePlan& stage, const BoundaryBatchDims& batch_dims,
                  const cost::CostModel& model, const Stopwatch& watch)
      : stage_(stage), model_(model), watch_(watch) {
    options_.part.boundary_batch_dims = batch_dims;
  }

  /// All of them on `mesh`, cheapest first.
  std::vector<Json> on(const DeviceMesh& mesh) {
    std::vector<Json> found;
    for (const std::vector<AxisUse>& uses : intra_op::templates_of(mesh))
      if (watch_.seconds() < kHandMadeSeconds)
        if (Json one = planned(mesh, uses); !one.is_null()) found.push_back(std::move(one));
    sort(found);
    return found;
  }

  /// All on the mesh of the stage, and the cheapest of every other logical one.
  std::vector<Json> all(const Cluster& cluster) {
    const DeviceMesh& own = stage_.plan.mesh;
    std::vector<Json> found = on(own);
    for (const DeviceMesh& mesh :
         logical_meshes(cluster, submesh_of(cluster, own.num_devices()), own.devices())) {
      if (shape_text(mesh) == shape_text(own)) continue;
      if (const std::vector<Json> others = on(mesh); !others.empty())
        found.push_back(others.front());
    }
    sort(found);
    return found;
  }

 private:
  static void sort(std::vector<Json>& layouts) {
    std::ranges::stable_sort(layouts, {},
                             [](const Json& of) { return of["seconds"].get<double>(); });
  }

  /// Null if the batch is too small, or time is over.
  Json planned(const DeviceMesh& mesh, const std::vector<AxisUse>& uses) {
    options_.allowed.axis_uses = uses;
    options_.limits.seconds = kHandMadeSeconds - watch_.seconds();
    try {
      const ShardingPlan plan = intra_op::auto_shard(stage_.graph, mesh, model_, options_, &cache_);
      const double seconds = plan.cost.objective_seconds, own = stage_.plan.cost.objective_seconds;
      const std::int64_t bytes =
          intra_op::counted_bytes(plan, stage_.graph).with(std::max(1, stage_.memory.in_flight));
      return {{"mesh", shape_text(mesh)}, {"uses", intra_op::text_of(uses)},
              {"seconds", seconds},       {"more", own > 0 ? seconds / own - 1 : 0},
              {"memory_bytes", bytes},    {"fits", bytes <= model_.device.memory_bytes}};
    } catch (const Error&) {
      return nullptr;
    }
  }

  const StagePlan& stage_;
  const cost::CostModel& model_;
  const Stopwatch& watch_;
  intra_op::AutoShardOptions options_;
  intra_op::PlanningCache cache_;
};

}  // namespace

Json hand_made_json(const Plan& plan, const Cluster& cluster) {
  const Stopwatch watch;
  const cost::CostModel model = cost::CostModel::of(cluster);
  const std::vector<BoundaryBatchDims> batch_dims = batch_dims_of(plan.stages);
  std::set<std::pair<std::uint64_t, std::string>> known;
  Json json = Json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    if (!known.emplace(structural_hash(stage.graph), shape_text(stage.plan.mesh)).second) continue;
    for (Json& one : HandMadeLayouts(stage, batch_dims[s], model, watch).all(cluster)) {
      one["stage"] = s;
      json.push_back(std::move(one));
    }
  }
  return json;
}

}  // namespace alpa::page
