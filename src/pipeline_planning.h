#pragma once
/// Plans the stages of a pipelined step, each on its own part of the cluster.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "alpa/executable.h"
#include "auto_stages.h"
#include "method_options.h"
#include "src/base/infinity.h"
#include "src/base/timing.h"
#include "src/cost/cost_model.h"
#include "src/intra_op/search/auto_shard.h"
#include "src/intra_op/space/planning_cache.h"

namespace alpa {

/// Numbers of micro-batches to choose from: the divisors of the batch that are the first at or
/// above a power of two, ascending.
std::vector<int> micro_batch_choices(const TrainingStep& step);

/// The step's graph for this method: for `AutoLayers` with the layers that are found.
Graph traced_in_layers(const TrainingStep& step, const MethodOptions& method);

/// The step's graph with a layer per node, as a plan file says. Throws Error naming `origin` if the
/// file was made for another number of nodes.
Graph traced_in_layers(const TrainingStep& step, int num_micro_batches,
                       const std::vector<int>& layers, const std::string& origin);

/// Of a stage's boundary inputs, by name, the dimension that is the batch, if they have one.
using BoundaryBatchDims = std::map<std::string, int>;

/// Fills the graphs of `stages`, whose layers together are those of `graph`. Returns what only the
/// whole graph tells of each.
std::vector<BoundaryBatchDims> cut_into_stages(const Graph& graph, std::vector<StagePlan>& stages);

/// The step's graph with the layers that `leader`, the graph of another step on the same state, has
/// for the same forward nodes.
Graph traced_in_layers_of(const Graph& leader, const TrainingStep& step, int num_micro_batches);

/// A stage before it is planned.
struct StageRequest {
  int first_layer = 0, last_layer = 0;
  std::vector<DeviceMesh> meshes;  ///< logical shapes to choose from
};

/// Chooses stages and plans them. Arguments must outlive it.
class StagePlanner {
 public:
  StagePlanner(const Graph& graph, const MethodOptions& method, const Cluster& cluster,
               double trace_seconds);

  /// The search for stages that keep `budget`, begun at the first call; for methods that search
  /// for them. Throws as `choose`.
  StageSearch& search(std::int64_t budget);
  /// Of that search: what is proven of all stages, its best ones, and how far it is. If none was
  /// begun: 0, infinite and nothing.
  double bound() const { return search_ ? search_->bound() : 0; }
  double best_seconds() const { return search_ ? search_->best_seconds() : kInfinity; }
  PlanningProgress progress() const { return search_ ? search_->progress() : PlanningProgress{}; }
  /// What other numbers of micro-batches are proven to take at least, in seconds.
  void set_others_bound(double seconds) { others_bound_ = seconds; }

  /// The stages that the method asks for. If it says that they are searched for, they keep `budget`
  /// bytes per device, as `counted_bytes` counts them; throws intra_op::OverBudget if none do.
  /// Throws Error if the stages fit neither the layers nor the devices.
  void choose(std::int64_t budget);

  /// The chosen stages, planned one by one: each with the best plan within its limit in bytes, or
  /// with the best of all if there are no limits. Throws intra_op::OverBudget.
  std::vector<StagePlan> plan(const std::vector<std::int64_t>& limits) const;

  /// How much of the stages' seconds other stages may save at most, as the search proved: a share.
  /// 1 if the stages were given.
  double gap() const { return gap_; }

  /// What the planner counts for a stage of the result.
  std::int64_t counted(const std::vector<StagePlan>& stages, std::size_t stage) const;

 private:
  int in_flight(std::size_t stage) const;

  const Graph& graph_;
  const MethodOptions& method_;
  const Cluster& cluster_;
  const cost::CostModel model_;
  const Stopwatch watch_;
  intra_op::AutoShardOptions options_;
  mutable intra_op::PlanningCache cache_;
  intra_op::AutoShardOptions search_options_;  ///< of `search_`
  std::unique_ptr<StageSearch> search_;
  std::int64_t searched_budget_ = 0;
  double others_bound_ = kInfinity;
  std::vector<StageRequest> requests_;
  std::vector<std::shared_ptr<const RangePlan>> found_plans_;  ///< per stage, or none at all
  double gap_ = 1;
};

/// The stages of `graph` on the meshes, and along the plans, of a step's that works on the same
/// state (intra_op/follow.h). `graph` is one of `traced_in_layers_of`.
std::vector<StagePlan> follow_stages(const std::vector<StagePlan>& leader, const Graph& graph,
                                     const cost::CostModel& model);

}  // namespace alpa
