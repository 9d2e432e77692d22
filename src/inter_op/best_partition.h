#pragma once
/// The stage search: which layers form a stage, and on which submesh with which configuration
/// (Alpa, arXiv 2201.12023, section 5.1). Pure functions, safe to call from several threads.
#include <functional>
#include <optional>
#include <vector>

#include "src/inter_op/partition_costs.h"
#include "src/inter_op/stage.h"

namespace alpa::inter_op {

struct PartitionProblem {
  Submesh cluster;
  std::vector<Submesh> submeshes;  ///< the choices that `costs` numbers
  const PartitionCosts& costs;
  int micro_batches = 1;
  /// Micro-batches in flight at a stage with so many stages after it; may not decrease with them.
  /// Empty: those of 1F1B, min(micro_batches, stages after + 1).
  std::function<int(int stages_after)> in_flight = {};
  /// A stage that has all its micro-batches in flight waits until one comes back. If n are in
  /// flight at most, and one takes R seconds through the stage and those after it, transfers
  /// included, then the pipeline takes R / n a micro-batch at least. False: not counted.
  bool waits_in_flight = false;
  /// Seconds to pass one micro-batch (forward and backward) between the stage on submesh `before`
  /// that ends before layer `layer` and the one on submesh `after` that begins there. Empty: 0.
  std::function<double(int layer, int before, int after)> transfer_seconds = {};
  /// Asked between programs; true ends the search with the best so far. Empty: never.
  std::function<bool()> is_over = {};
};

struct PartitionResult {
  StagePartition partition;
  /// sum + (micro_batches - 1) × bottleneck: seconds of the step's micro-batches.
  double seconds = 0;
  double lower_bound = 0;   ///< no stages take less: `seconds`, or a thousandth less with waits
  double sum = 0;           ///< of all stages and of the transfers between them
  double bottleneck = 0;    ///< the largest of them, or of what stages wait
  int programs_solved = 0;  ///< dynamic programs that the search needed
};

/// Stages with the least seconds; nullopt if none fit. Exact, unless it is ended early, over all
/// lists of submeshes that `tilings` accepts. All devices are used. A transfer counts as a stage of
/// its own between two others: it overlaps with their computation, and delays every micro-batch if
/// it is the slowest.
std::optional<PartitionResult> best_partition(const PartitionProblem& problem);

}  // namespace alpa::inter_op
