#pragma once
/// Auto-sharding: one integer linear program over all nodes of the graph (DESIGN section 5; after Alpa
/// section 4).
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/cost/cost_model.h"
#include "alpa/intra_op/plan.h"

namespace alpa {

/// What of the search space is allowed. The defaults allow everything; the methods below are the same
/// program with less allowed.
struct AutoShardOptions {
  std::string method = "shard";
  std::optional<int>
      batch_mesh_axis;  ///< this mesh axis must split the batch wherever a node has a batch dimension
  bool split_batch_everywhere = false;  ///< every mesh axis must (data parallelism)
  bool replicate_parameters = false;    ///< parameters are held whole by every device
  bool replicate_optimizer_state = false;
  bool shard_parameters =
      false;  ///< parameters are split over all devices where their shape allows it (ZeRO-3)
  bool shard_optimizer_state = false;  ///< likewise the other state (ZeRO-2)
  /// Every einsum is split over as many devices as it can be: none repeats another's contraction (Alpa's
  /// allow_recompute_heavy_op = false). Needed where the cost model knows communication only, in which
  /// doing everything everywhere would be free.
  bool split_contractions = false;
  bool allow_all_gather = true;
  bool allow_all_to_all = true;
  std::optional<std::int64_t>
      memory_budget_bytes;  ///< per device, for all that is live at any point of the program
  double time_limit_seconds = 60;
};

AutoShardOptions data_parallel_options();
AutoShardOptions zero2_options();
AutoShardOptions zero3_options();

/// No plan keeps the memory budget, or none was found in time: by how many bytes, where, and what would
/// help.
class OverBudget : public Error {
 public:
  using Error::Error;
  std::int64_t missing_bytes = 0;  ///< at least; 0: nothing is proven
};

/// The best plan on this mesh whose bytes, counted as live at each point of the graph, keep the memory
/// budget (padding, scratch and gaps between buffers come on top). Without a budget it is proven the best,
/// unless time runs out. With one, a plan close to the proven bound is good enough, and every attempt to
/// find it gets a fiftieth of the time. Throws OverBudget, or Error if no plan keeps to the other options.
ShardingPlan auto_shard(const Graph& graph, const DeviceMesh& mesh, const CostModel& model,
                        const AutoShardOptions& options);

/// The best over several logical meshes (same devices); ties go to the first. Throws as for one mesh; of
/// several errors the one that lacks least.
ShardingPlan auto_shard(const Graph& graph, const std::vector<DeviceMesh>& meshes, const CostModel& model,
                        const AutoShardOptions& options);

}  // namespace alpa
