#pragma once
/// Plans the stages of a pipelined step, each on its own part of the cluster.
#include <memory>
#include <vector>

#include "alpa/plan/pipeline_plan.h"
#include "method_options.h"
#include "src/base/infinity.h"
#include "src/plan/cost/cost_model.h"
#include "src/search/sharding/auto_shard.h"
#include "src/search/space/planning_cache.h"
#include "src/search/space/planning_time.h"
#include "src/search/stages/cut_stages.h"
#include "src/search/stages/stage_search.h"

namespace alpa {

/// A stage before it is planned.
struct UnplannedStage {
  int first_layer = 0, last_layer = 0;
  std::vector<DeviceMesh> meshes;  ///< logical shapes to choose from
};

/// Schedules that searched stages may have, the one with the fewest micro-batches in flight first.
std::vector<ScheduleKind> schedules_of(const PipeshardParallel& options);

/// Chooses stages and plans them. Arguments must outlive it; for the last two see `search_options`.
class StagePlanner {
 public:
  StagePlanner(const Graph& graph, const MethodOptions& method, const Cluster& cluster,
               const TraceSeconds& tracing, std::optional<double> work_before = {});

  /// The search for stages that fit `budget`, begun at the first call; for methods that search
  /// for them. Throws as `choose`.
  StageSearch& search(std::int64_t budget);
  bool has_begun() const { return search_ != nullptr; }
  /// A search for bounds alone, on stages of any layers computed again; `step` is `recomputable` of
  /// the graph, and must outlive it. Throws as `choose`.
  std::unique_ptr<StageSearch> search_for_bounds(const inter_op::RecomputableStep& step,
                                                 std::int64_t budget) const;
  /// True if the time for searches has passed: what is left is for lowering.
  bool is_over() const { return time_.is_over(); }
  /// Accessors of `search()`: lower bound in seconds, seconds of the best stages, progress. If it
  /// has not begun: 0, infinite and nothing.
  double bound() const { return search_ ? search_->bound() : 0; }
  double best_seconds() const { return search_ ? search_->best_seconds() : kInfinity; }
  /// Seconds that no stages of that search take less than; more than `enough` need not be proven.
  double proven_seconds(double enough) const {
    return search_ ? search_->proven_seconds(enough) : 0;
  }
  PlanningProgress progress() const { return search_ ? search_->progress() : PlanningProgress{}; }
  /// Lower bound on other variants of the step, in seconds, whether their searches ended by
  /// themselves, and a lower bound on all variants.
  void set_others(double bound, bool complete, double of_all) {
    others_ = {bound, complete, of_all};
  }

  /// The stages that the method asks for. If it says that they are searched for, they fit `budget`
  /// bytes per device, as `counted_bytes` counts them; throws intra_op::OverBudget if none do.
  /// Throws Error if the stages fit neither the layers nor the devices.
  void choose(std::int64_t budget);

  /// Plans of the stages that the method gives, as a search made them.
  void set_plans(std::vector<std::shared_ptr<const RangePlan>> plans) {
    given_plans_ = std::move(plans);
  }

  /// Chooses the best stages of that search with the schedule of the fewest micro-batches in
  /// flight, if they take less than `seconds`. False: there are none, or the chosen ones have it.
  bool choose_fewest_in_flight(double seconds);

  /// Chooses other stages of that search, which it found to take less than `seconds`, if time is
  /// left. False: there are none.
  bool choose_other(double seconds);

  /// The chosen stages, planned one by one: each with the best plan within its limit in bytes, or
  /// with the best of all if there are no limits. Throws intra_op::OverBudget.
  std::vector<StagePlan> plan(const std::vector<std::int64_t>& limits) const;

  /// True if the search for stages ended by itself, within its gap; false if they were given.
  bool is_complete() const { return is_complete_; }
  /// Seconds that no stages are proven to take less than; 0 if they were given.
  double lower_bound() const { return lower_bound_; }
  /// The same, of this graph's stages alone, whatever its variants take.
  double variant_bound() const { return proven_ < kInfinity ? proven_ : 0; }

  /// Schedule of the chosen stages.
  ScheduleKind schedule() const { return schedule_; }

  /// Bytes that the planner counts for a stage of the result.
  std::int64_t counted(const std::vector<StagePlan>& stages, std::size_t stage) const;

 private:
  int in_flight(std::size_t stage) const;
  void take(FoundStages found);

  const Graph& graph_;
  const MethodOptions& method_;
  const Cluster& cluster_;
  const cost::CostModel model_;
  intra_op::AutoShardOptions options_;
  const intra_op::PlanningTime time_;
  mutable intra_op::PlanningCache cache_;
  intra_op::AutoShardOptions search_options_;  ///< of `search_`
  std::unique_ptr<StageSearch> search_;
  std::int64_t searched_budget_ = 0;
  struct {
    double bound = kInfinity;
    bool complete = true;
    double of_all = 0;  ///< variants, this one included
  } others_;
  ScheduleKind schedule_;
  std::vector<UnplannedStage> requests_;
  std::vector<std::shared_ptr<const RangePlan>> given_plans_;  ///< of stages that are given
  std::vector<std::shared_ptr<const RangePlan>> found_plans_;  ///< per stage, or none at all
  bool is_complete_ = false;
  double lower_bound_ = 0;
  double proven_ = kInfinity;  ///< by all searches
};

}  // namespace alpa
