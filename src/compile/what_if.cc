// src/compile/what_if.cc — plans the stages of a plan again, under another condition
#include "what_if.h"

#include <algorithm>
#include <cmath>

#include "alpa/base/error.h"
#include "method_options.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/schedules/schedule.h"
#include "src/report/pipeline_forecast.h"
#include "src/search/sharding/change_near.h"
#include "src/search/stages/equal_stages.h"
#include "src/search/stages/plan_stage.h"
#include "src/search/stages/stage_batch.h"
#include "src/search/stages/stage_meshes.h"
#include "src/spmd/join_stages.h"

namespace alpa {
namespace {

/// Files hold prices in full; sums may be in another order.
constexpr double kSamePrice = 1e-9;

std::vector<int> shape_of(const DeviceMesh& mesh) {
  std::vector<int> shape;
  for (const MeshAxis& axis : mesh.axes()) shape.push_back(axis.size);
  return shape;
}

/// The logical meshes of a stage's devices: of this shape, of every shape if it is empty, or as the
/// stage has it.
std::vector<DeviceMesh> meshes_of(const StagePlan& stage, const Cluster& cluster,
                                  const std::optional<std::vector<int>>& shape = {}) {
  const DeviceMesh& mesh = stage.plan.mesh;
  return logical_meshes(cluster, submesh_of(cluster, mesh.num_devices()), mesh.devices(),
                        shape ? *shape : shape_of(mesh));
}

/// To the gap at which a search ends.
bool is_proven(const PlanCost& cost, const intra_op::SearchLimits& limits) {
  return cost.lower_bound_seconds >= (1 - limits.relative_gap) * cost.objective_seconds;
}

/// What joining stages reads of the whole step: names of metrics and outputs. Values between stages
/// are called after their numbers.
Graph names_of_step(const Plan& plan) {
  Graph whole;
  whole.num_micro_batches = plan.stages.front().graph.num_micro_batches;
  for (const StagePlan& stage : plan.stages) {
    const Graph& graph = stage.graph;
    whole.metrics.insert(whole.metrics.end(), graph.metrics.begin(), graph.metrics.end());
    for (const Output& output : graph.outputs)
      if (!output.name.starts_with('%')) whole.outputs.push_back(output);
  }
  return whole;
}

/// `plan`, whose stages have their costs, with the predicted seconds and the bytes of the whole.
CountedPlan counted(Plan plan, const Cluster& cluster) {
  set_forecast(plan.stages, cost::CostModel::of(cluster));
  plan.cost = plan.stages.front().plan.cost;
  if (plan.schedule) {
    set_forecast(plan, spmd::partition(names_of_step(plan), plan, cluster), cluster);
    plan.cost.lower_bound_seconds = plan.variant_bound_seconds = 0;  // not compared with others
  }
  CountedPlan result{std::move(plan)};
  for (int s = 0; s < static_cast<int>(result.plan.stages.size()); ++s) {
    const StagePlan& stage = result.plan.stages[s];
    result.memory_bytes = std::max(
        result.memory_bytes,
        intra_op::counted_bytes(stage.plan, stage.graph).with(spmd::in_flight(result.plan, s)));
  }
  return result;
}

class Replanning {
 public:
  Replanning(const Plan& plan, const Cluster& cluster, const PlanChange& change)
      : plan_(plan),
        cluster_(cluster),
        change_(change),
        model_(cost::CostModel::of(cluster)),
        method_(options_of(parse_method(plan.method))),
        batch_dims_(batch_dims_of(plan.stages)) {
    method_.options.solver_seconds = change.solver_seconds;
    method_.options.memory_budget_bytes = change.budget;
    for (const StagePlan& stage : plan.stages)
      meshes_.push_back(meshes_of(stage, cluster, change.mesh_shape));
    if (const auto& set = change.set)
      require_possible(plan, set->op, set->spec, meshes_[set->op.stage], model_);
  }

  /// Stages are planned for their own seconds. So the plan as it is may be the better one of the
  /// whole.
  CountedPlan run() {
    CountedPlan found = replanned();
    const std::optional<Plan> kept = allowed_as_it_is();
    if (!kept) return found;
    CountedPlan stays = counted(*kept, cluster_);
    const PlanCost &now = stays.plan.cost, &best = found.plan.cost;
    return now.objective_seconds < best.objective_seconds ? std::move(stays) : std::move(found);
  }

 private:
  bool is_set(int s) const { return change_.set && change_.set->op.stage == s; }

  StageLimit limit(int s) const {
    return {memory_budget(method_, cluster_), spmd::in_flight(plan_, s)};
  }

  bool is_asked(int s) const { return change_.concerns_all() || is_set(s); }

  CountedPlan replanned() {
    Plan result = plan_;
    EqualStages equal;
    for (int s = 0; s < static_cast<int>(plan_.stages.size()); ++s) {
      if (!is_asked(s)) continue;
      const StageToPlan question{plan_.stages[s].graph, meshes_[s], limit(s), batch_dims_[s]};
      std::optional<ShardingPlan> known;
      if (!is_set(s)) known = equal.find(question);
      result.stages[s].plan = known ? *std::move(known) : best(s);
      if (!is_set(s)) equal.add(question, result.stages[s].plan);
    }
    return counted(std::move(result), cluster_);
  }

  std::optional<Plan> allowed_as_it_is() const {
    Plan kept = plan_;
    for (int s = 0; s < static_cast<int>(plan_.stages.size()); ++s) {
      if (!is_asked(s)) continue;
      std::optional<ShardingPlan> stage = allowed_as_it_is(s);
      if (!stage) return std::nullopt;
      kept.stages[s].plan = *std::move(stage);
    }
    return kept;
  }

  /// The plan that the search finds, or that of the stage, if it is allowed and better.
  ShardingPlan best(int s) {
    ShardingPlan found = search(s);
    std::optional<ShardingPlan> kept = allowed_as_it_is(s);
    if (!kept || kept->cost.objective_seconds >= found.cost.objective_seconds) return found;
    kept->cost.lower_bound_seconds =
        std::min(found.cost.lower_bound_seconds, kept->cost.objective_seconds);
    return *std::move(kept);
  }

  std::optional<ShardingPlan> allowed_as_it_is(int s) const {
    const StagePlan& stage = plan_.stages[s];
    const auto mesh = std::ranges::find(meshes_[s], shape_of(stage.plan.mesh), shape_of);
    const bool is_other = is_set(s) && result_spec(plan_, change_.set->op) != change_.set->spec;
    if (mesh == meshes_[s].end() || is_other ||
        intra_op::counted_bytes(stage.plan, stage.graph).with(limit(s).in_flight) > limit(s).bytes)
      return std::nullopt;
    ShardingPlan kept = stage.plan;
    kept.mesh = *mesh;
    kept.cost = evaluate(kept, stage.graph, model_);
    return kept;
  }

  /// The stage's plan with the pin, as far as it fits. The search of the whole did not prove the
  /// plan; another one that proves nothing may find what the change has no part in.
  std::optional<ShardingPlan> changed_near(int s, const intra_op::AutoShardOptions& options) {
    const StagePlan& stage = plan_.stages[s];
    std::optional<ShardingPlan> changed =
        intra_op::change_near(stage.graph, stage.plan, model_, options, cache_);
    if (changed &&
        intra_op::counted_bytes(*changed, stage.graph).with(limit(s).in_flight) > limit(s).bytes)
      changed.reset();
    return changed;
  }

  /// As the method searches: a stage of a pipeline beside its micro-batches in flight, any other
  /// plan within the budget as a whole.
  ShardingPlan search(int s) {
    method_.begin_planning();
    intra_op::AutoShardOptions options = search_options(method_, {});
    options.part.boundary_batch_dims = batch_dims_[s];
    if (is_set(s)) options.allowed.pins = {{change_.set->op.node, change_.set->spec}};
    const Graph& graph = plan_.stages[s].graph;
    if (!change_.concerns_all() && !is_proven(plan_.stages[s].plan.cost, options.limits))
      if (std::optional<ShardingPlan> changed = changed_near(s, options)) return *changed;
    if (method_.kind == MethodKind::pipeline) {
      options.part.whole_boundary_inputs = true;
      return plan_stage(graph, meshes_[s], limit(s), {model_, options, cache_});
    }
    options.memory_budget_bytes = limit(s).bytes;
    return intra_op::auto_shard(graph, meshes_[s], model_, options, &cache_);
  }

  const Plan& plan_;
  const Cluster& cluster_;
  const PlanChange& change_;
  const cost::CostModel model_;
  MethodOptions method_;
  const std::vector<BoundaryBatchDims> batch_dims_;
  std::vector<std::vector<DeviceMesh>> meshes_;  ///< by stage
  intra_op::PlanningCache cache_;
};

void require_askable(const Plan& plan) {
  require(plan.method != kFollow,
          "it follows the plan of another step, which is the one to be asked");
  require(
      plan.schedule != ScheduleKind::interleaved_one_f_one_b,
      "with schedule interleaved_1f1b several stages share devices and cannot be planned one by "
      "one; ask a plan of another schedule");
}

}  // namespace

CountedPlan counted_plan(Plan plan, const Cluster& cluster) {
  require_askable(plan);
  const cost::CostModel model = cost::CostModel::of(cluster);
  for (const StagePlan& stage : plan.stages) {
    const double then = stage.plan.cost.objective_seconds,
                 now = evaluate(stage.plan, stage.graph, model).objective_seconds;
    const bool same_links = meshes_of(stage, cluster).front().axes() == stage.plan.mesh.axes();
    require(
        same_links && std::abs(now - then) <= kSamePrice * then,
        "it was planned for another cluster{}: stage {} took {}, but takes {} on this one; name "
        "the plan's with --cluster",
        same_links ? "" : " with other links", &stage - plan.stages.data(), seconds_text(then),
        seconds_text(now));
  }
  const double bound = plan.cost.lower_bound_seconds;
  CountedPlan result = counted(std::move(plan), cluster);
  result.plan.cost.lower_bound_seconds = bound;
  return result;
}

CountedPlan kept_plan(const Plan& plan, const Cluster& cluster) {
  Plan kept = plan;
  for (StagePlan& stage : kept.stages) {
    stage.plan.mesh = meshes_of(stage, cluster).front();
    stage.plan.cost = evaluate(stage.plan, stage.graph, cost::CostModel::of(cluster));
  }
  return counted(std::move(kept), cluster);
}

CountedPlan what_if(const Plan& plan, const Cluster& cluster, const PlanChange& change) {
  require_askable(plan);
  return Replanning(plan, cluster, change).run();
}

}  // namespace alpa
