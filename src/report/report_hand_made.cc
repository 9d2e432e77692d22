// src/report/report_hand_made.cc — what layouts that people choose by hand would cost
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
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

/// A template with its best plan.
struct HandMade {
  std::string mesh, uses;
  double seconds;
  std::int64_t bytes;
};

/// The layouts of one stage.
class HandMadeLayouts {
 public:
  HandMadeLayouts(const StagePlan& stage, const BoundaryBatchDims& batch_dims,
                  const cost::CostModel& model, const Stopwatch& watch)
      : stage_(stage), batch_dims_(batch_dims), model_(model), watch_(watch) {}

  bool is_over() const { return watch_.seconds() >= kHandMadeSeconds; }

  /// Hand-made layouts on `mesh`, as many as there is time for.
  std::vector<HandMade> on(const DeviceMesh& mesh) {
    std::vector<HandMade> found;
    for (const std::vector<intra_op::AxisUse>& uses : intra_op::templates_of(mesh))
      if (const std::optional<HandMade> one = planned(mesh, uses)) found.push_back(*one);
    std::ranges::stable_sort(found, {}, &HandMade::seconds);
    return found;
  }

 private:
  std::optional<HandMade> planned(const DeviceMesh& mesh,
                                  const std::vector<intra_op::AxisUse>& uses) {
    if (is_over()) return {};
    intra_op::AutoShardOptions options;
    options.allowed.axis_uses = uses;
    options.part.boundary_batch_dims = batch_dims_;
    options.limits.seconds = kHandMadeSeconds - watch_.seconds();
    try {
      const ShardingPlan plan = intra_op::auto_shard(stage_.graph, mesh, model_, options, &cache_);
      const int in_flight = std::max(1, stage_.memory.in_flight);
      return HandMade{shape_text(mesh), intra_op::text_of(uses), plan.cost.objective_seconds,
                      intra_op::counted_bytes(plan, stage_.graph).with(in_flight)};
    } catch (const Error&) {  // the batch is too small, or time is over
      return {};
    }
  }

  const StagePlan& stage_;
  const BoundaryBatchDims& batch_dims_;
  const cost::CostModel& model_;
  const Stopwatch& watch_;
  intra_op::PlanningCache cache_;
};

std::vector<HandMade> layouts_of(HandMadeLayouts& layouts, const StagePlan& stage,
                                 const Cluster& cluster) {
  const DeviceMesh& own = stage.plan.mesh;
  std::vector<HandMade> found = layouts.on(own);
  for (const DeviceMesh& mesh :
       logical_meshes(cluster, submesh_of(cluster, own.num_devices()), own.devices())) {
    if (shape_text(mesh) == shape_text(own)) continue;
    const std::vector<HandMade> others = layouts.on(mesh);
    if (!others.empty()) found.push_back(others.front());
  }
  std::ranges::stable_sort(found, {}, &HandMade::seconds);
  return found;
}

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
    HandMadeLayouts layouts(stage, batch_dims[s], model, watch);
    const double seconds = stage.plan.cost.objective_seconds;
    for (const HandMade& one : layouts_of(layouts, stage, cluster))
      json.push_back({{"stage", s},
                      {"mesh", one.mesh},
                      {"uses", one.uses},
                      {"seconds", one.seconds},
                      {"more", seconds > 0 ? one.seconds / seconds - 1 : 0},
                      {"memory_bytes", one.bytes},
                      {"fits", one.bytes <= cluster.device.memory_bytes}});
  }
  return json;
}

}  // namespace alpa::page
