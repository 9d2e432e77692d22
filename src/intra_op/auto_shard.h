#pragma once
/// Auto-sharding: one integer linear program over all nodes of the graph (docs/design.md section
/// 5; after Alpa section 4).
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/intra_op/plan.h"
#include "src/cost/cost_model.h"
#include "src/intra_op/planning_cache.h"

namespace alpa::intra_op {

/// The use of one mesh axis.
enum class AxisUse : std::uint8_t {
  any,    ///< not restricted
  batch,  ///< splits the batch; each state tensor is whole or split, whichever is cheaper
  data,   ///< splits the batch and nothing else
  zero2,  ///< splits the batch, and the optimizer's state as far as its shapes allow
  zero3,  ///< splits the batch, and all state as far as its shapes allow
  /// splits heads and hidden features as Megatron-LM does, and tokens where there are none
  tensor,
};

/// Restrictions of the search space. The defaults allow everything; parallel methods are the same
/// program with fewer choices.
struct AutoShardOptions {
  std::string method = "shard";
  /// this mesh axis must split the batch wherever a node has a batch dimension
  std::optional<int> batch_mesh_axis;
  bool split_batch_everywhere = false;  ///< every mesh axis must (data parallelism)
  /// Uses of the first mesh axes, in addition to the other options; all axes of
  /// `tensor` are used as one.
  std::vector<AxisUse> axis_uses;
  bool replicate_parameters = false;  ///< parameters are held whole by every device
  bool replicate_optimizer_state = false;
  /// parameters are split over all devices where their shape allows it (ZeRO-3)
  bool shard_parameters = false;
  bool shard_optimizer_state = false;  ///< so is the optimizer's state (ZeRO-2)
  bool shard_gradients = false;        ///< so are the sums of gradients over micro-batches
  /// Splits every einsum over as many devices as possible, so that none repeats another's
  /// contraction (Alpa's allow_recompute_heavy_op = false). Needed with cost models of
  /// communication only, in which repeating all work would be free.
  bool split_contractions = false;
  /// Boundary inputs arrive whole or split, not as partial sums: from another mesh.
  bool whole_boundary_inputs = false;
  /// Required specs of outputs of the graph, by name; other outputs may have any spec.
  std::map<std::string, ShardingSpec> output_specs;
  bool allow_all_gather = true;
  bool allow_all_to_all = true;
  /// per device, for all that is live at any point of the program
  std::optional<std::int64_t> memory_budget_bytes;
  double time_limit_seconds = 60;
  const std::atomic<bool>* stop = nullptr;  ///< when true, planning ends as at the time limit
  /// The search ends when (objective - bound) / objective is at most this. Easy problems are solved
  /// to proven optimality anyway.
  double relative_gap = 0.005;
  ProgressCallback progress = {};
};

AutoShardOptions data_parallel_options();
AutoShardOptions zero2_options();
AutoShardOptions zero3_options();

/// No plan keeps the memory budget, or none was found in time. The message says by how many bytes,
/// where, and what would help.
class OverBudget : public Error {
 public:
  using Error::Error;
  std::int64_t missing_bytes = 0;   ///< lower bound; 0: nothing is proven
  std::int64_t smallest_bytes = 0;  ///< counted, of the smallest plan found; 0: none was
};

/// A search for plans on several logical meshes of the same devices. It continues over several
/// calls, which share results: a plan found under one budget starts the search under the next. The
/// time limit holds from the constructor on, for all calls together. Not shared between threads.
///
/// A program that a small amount of work solves to optimality is done. Any other is first solved
/// with one AxisUse per mesh axis, in all combinations (milliseconds each). The search starts from
/// the best of these plans: the result is never worse. If one of them keeps the budget, a plan is
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

  /// True if the time limit has passed, or the search was stopped.
  bool is_over() const;

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
