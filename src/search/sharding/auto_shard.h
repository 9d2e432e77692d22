#pragma once
/// Auto-sharding: one integer linear program over all nodes of the graph (docs/design.md section
/// 5; after Alpa section 4).
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/plan/cost/cost_model.h"
#include "src/search/space/auto_shard_options.h"
#include "src/search/space/planning_cache.h"

namespace alpa::intra_op {

/// A search for plans on several logical meshes of the same devices. It continues over several
/// calls, which share results: a plan found under one budget starts the search under the next. The
/// time limit holds from the constructor on, for all calls together. Not shared between threads.
///
/// A program that a small amount of work solves to optimality is done. Any other is first solved
/// with one AxisUse per mesh axis, in all combinations (milliseconds each). The search starts from
/// the best of these plans: the result is never worse. If one of them fits the budget, a plan is
/// found however short the time. Then the meshes are searched in turn, with more and more work. A
/// mesh on which no plan can be cheaper than the best known is dropped at once. Other meshes are
/// skipped, with their templates, if time is over before their turn.
///
/// All efforts are limited by work, never by time: plans depend on graph, meshes, cost model and
/// options alone, as long as planning ends before its time limit. The time limit ends any search.
class AutoSharding {
 public:
  /// `graph` must outlive this. The options' memory budget tells how the time is shared: if the
  /// best plan exceeds it, most of the time is left to calls with a budget. Facts about operators,
  /// types and layers go into `cache`, which must outlive this; null: a private cache. Throws
  /// Error if no mesh is given.
  AutoSharding(const Graph& graph, const std::vector<DeviceMesh>& meshes,
               const cost::CostModel& model, const AutoShardOptions& options,
               PlanningCache* cache = nullptr);
  ~AutoSharding();
  AutoSharding(const AutoSharding&) = delete;
  AutoSharding& operator=(const AutoSharding&) = delete;

  /// The best plan, with a bound for the plans on all the meshes; ties go to the first mesh. With a
  /// budget: of those whose bytes, counted as live at each point of the graph, keep it (padding,
  /// scratch and gaps between buffers come on top). Without one it is proven the best, unless time
  /// runs out; with one, a plan close to the proven bound is good enough. Attempts to keep a budget
  /// are limited by work, so that their outcome does not depend on the machine. As long as none
  /// succeeds and there is time, they get more work. Throws OverBudget, or Error if no plan keeps
  /// to the other options; of several meshes' errors, the one with the fewest missing bytes.
  ShardingPlan plan(std::optional<std::int64_t> memory_budget_bytes = {});

  /// The time limit is so many seconds from now, unless it is earlier.
  void end_within(double seconds);

  /// True if the time limit has passed, or the search was stopped.
  bool is_over() const;
  double work_left() const;  ///< in seconds, until the search ends

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The best plan on this mesh within the options' budget: one call of AutoSharding::plan.
ShardingPlan auto_shard(const Graph& graph, const DeviceMesh& mesh, const cost::CostModel& model,
                        const AutoShardOptions& options, PlanningCache* cache = nullptr);

/// The best plan over several logical meshes of the same devices.
ShardingPlan auto_shard(const Graph& graph, const std::vector<DeviceMesh>& meshes,
                        const cost::CostModel& model, const AutoShardOptions& options,
                        PlanningCache* cache = nullptr);

}  // namespace alpa::intra_op
