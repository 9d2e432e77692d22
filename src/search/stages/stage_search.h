#pragma once
/// Finds the stages of a pipeline: prices ranges of layers on parts of the cluster
/// (range_costs.h), and searches for the best partition (step_bound.h).
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/schedule_kind.h"
#include "src/base/infinity.h"
#include "src/search/bound/stage.h"
#include "src/search/stages/plan_stage.h"
#include "src/search/stages/range_costs.h"

namespace alpa {

/// Question of a search for stages: the graph, the cluster and the choices.
struct StageSearchSpace {
  const Graph& graph;
  const Cluster& cluster;
  std::int64_t budget = 0;  ///< bytes of a device, as `counted_bytes` counts them
  std::vector<inter_op::Submesh> submeshes = {};   ///< that stages may have
  std::vector<std::vector<int>> mesh_shapes = {};  ///< of stages; empty: every shape
  /// At least one; the first has the fewest micro-batches in flight at every stage.
  std::vector<ScheduleKind> schedules = {ScheduleKind::one_f_one_b};
  /// Stages for `plan_equal`, and to fall back on if time ends without any: one stage, equal ones.
  std::vector<inter_op::StagePartition> templates = {};
  /// For bounds alone: what layers of `graph` may keep, or compute again. Null: nothing.
  const inter_op::RecomputableBytes* recomputable = nullptr;
};

struct FoundStages {
  inter_op::StagePartition partition;
  int schedule = 0;        ///< number among the choices
  double seconds = 0;      ///< predicted for the step, by its schedule
  double lower_bound = 0;  ///< no stages take less
  /// True if the search ended by itself: no other stages are expected to take less, up to the
  /// options' relative gap.
  bool is_complete = false;
  bool has_first_plans = false;  ///< RangeCosts::Effort::first_plan
  /// Per stage, the plan that the search made of it; null: it needs less memory.
  std::vector<std::shared_ptr<const RangePlan>> plans = {};
  std::vector<int> graphs = {};  ///< per stage, whose range it is (StageSearch::mixed_with)
};

/// A search for the stages with the least predicted seconds per step, round by round, so that
/// several searches (of other numbers of micro-batches) can take turns. It plans the stages of the
/// least bound (step_bound.h) under what is known of ranges of layers, until no bound is below the
/// best stages that were planned, as their schedule plays them. One thread at a time.
class StageSearch {
 public:
  /// Referents of `question` and `planning` must outlive this.
  StageSearch(StageSearchSpace question, const PlanningContext& planning);
  ~StageSearch();
  StageSearch(const StageSearch&) = delete;
  StageSearch& operator=(const StageSearch&) = delete;

  /// One round. False: the best stages are found up to the options' relative gap, none are better
  /// than `cutoff_seconds` by that gap, there are none, or time is over or the search stopped.
  bool improve(double cutoff_seconds = kInfinity);

  /// Plans the template of so many stages, if there is one, as stages to compare others with.
  /// `any_plan`: with first plans (RangeCosts::Effort), which may outlast the clock while it says
  /// that no search has found any stages. Returns seconds; infinite: it does not fit.
  double plan_equal(int stages, const std::atomic<bool>* any_plan = nullptr);
  /// Plans the best stages anew if they have first plans.
  void plan_best_again();

  /// Lower bound on the seconds so far; none where memory made plans slower.
  double bound() const;
  /// Seconds that no stages take less than. More than `enough` need not be proven.
  double proven_seconds(double enough);
  /// One round of such a proof, which raises `bound()`. False: it is `enough`, or no round is left.
  bool prove(double enough);
  /// Searches on, for so many seconds of work and on the clock, for stages of which some are ranges
  /// of another search's graph, graph 1 of FoundStages: it has the same layers but computes others
  /// again. Stages are found by what they are expected to take (RangeCosts::estimated_seconds).
  /// None: none take less than the best stages of this graph, which stay, or layers differ.
  std::optional<FoundStages> mixed_with(StageSearch& other, double work_seconds,
                                        double clock_seconds);
  /// Takes over bounds of the search for the same step with fewer micro-batches.
  void take_bounds(const StageSearch& of_fewer);
  /// Ends the search after so much more work, in seconds, or so many seconds on the clock, whatever
  /// limits it began with.
  void end_after(double work_seconds, double clock_seconds);
  double best_seconds() const;   ///< of the best stages so far; infinite: none yet
  bool is_memory_bound() const;  ///< some plan gave up speed to fit
  double work_left() const;      ///< until the limit on work, in seconds
  PlanningProgress progress() const;

  /// The best stages so far, or else the first template that fits. Throws intra_op::OverBudget if
  /// no stages do.
  FoundStages finish();

  /// The best of the stages that were planned with the first schedule, which has the fewest
  /// micro-batches in flight. None: they do not take less than `seconds`.
  std::optional<FoundStages> with_fewest_in_flight(double seconds);

  /// The next best of the stages that were planned, behind those that were returned: real transfers
  /// may take longer than predicted. None: no others take less than
  /// so many seconds, or enough were returned.
  std::optional<FoundStages> other(double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace alpa
