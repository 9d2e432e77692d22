#pragma once
/// Finds the stages of a pipeline: prices ranges of layers on parts of the cluster
/// (range_costs.h), and searches for the best partition (inter_op/stage_search.h).
#include <functional>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "src/inter_op/stage.h"
#include "stage_planning.h"

namespace alpa {

/// What stages are searched for.
struct StageQuestion {
  const Graph& graph;
  const Cluster& cluster;
  std::int64_t budget = 0;  ///< bytes of a device, as `counted_bytes` counts them
  std::vector<inter_op::Submesh> submeshes = {};   ///< that stages may have
  std::vector<std::vector<int>> mesh_shapes = {};  ///< of stages; empty: every shape
  /// Micro-batches in flight at a stage with so many stages after it.
  std::function<int(int stages_after)> in_flight = {};
  /// Other stages that the result may not be dearer than: a single one, equal ones.
  std::vector<inter_op::StagePartition> templates = {};
};

/// Seconds to pass a micro-batch, forward and backward, between stages: as
/// inter_op::StageProblem::transfer_seconds, with indices of these submeshes. No way
/// to send them takes less (cost::least_transfer_seconds).
std::function<double(int layer, int before, int after)> transfer_prices(
    const Graph& graph, const Cluster& cluster, const std::vector<inter_op::Submesh>& submeshes);

struct FoundStages {
  inter_op::StagePartition partition;
  double seconds = 0;  ///< predicted for the step's micro-batches, transfers included
  /// Proven: no stages take less, unless memory made plans slower.
  double lower_bound = 0;
};

/// Stages with the least predicted seconds per step, up to the options' relative gap; a single
/// stage is one candidate. When time is over or the search is stopped, the best stages so far.
/// Throws Error if no stages fit.
FoundStages auto_stages(const StageQuestion& question, const StagePlanning& planning);

}  // namespace alpa
