#pragma once
/// The least that a step takes over all ways to cut layers into stages: a lower bound, and the
/// stages that it is of. Pure functions, safe to call from several threads.
#include <functional>
#include <vector>

#include "alpa/plan/schedule_kind.h"
#include "src/base/infinity.h"
#include "src/search/bound/partition_costs.h"
#include "src/search/bound/stage.h"
#include "src/search/tuning.h"

namespace alpa::inter_op {

/// Seconds of a stage's runs.
struct LeastRuns {
  double forward = 0, backward = 0;
};

struct StepBoundProblem {
  Submesh cluster;
  const std::vector<Submesh>& submeshes;  ///< the choices that `costs` numbers
  /// Lower bound on a micro-batch, with its share (1 / micro_batches) of what runs once.
  const PartitionCosts& costs;
  /// Lower bounds on its runs.
  std::function<LeastRuns(int first, int last, int submesh)> runs;
  int micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  /// Micro-batches in flight at a stage with so many stages after it, for its memory; may not
  /// decrease with them. Empty: as many as the schedule keeps at least.
  std::function<int(int stages_after)> in_flight = {};
  /// Seconds to pass one micro-batch (forward and backward) between the stage on submesh `before`
  /// that ends before layer `layer` and the one on submesh `after` that begins there. Empty: 0.
  std::function<double(int layer, int before, int after)> transfer_seconds = {};
  /// True if reductions of gradients, which `costs` count, may hide behind the last backward run.
  bool hides_gradients = false;
  std::vector<StagePartition> known = {};  ///< what these take is known: others are sought
  double enough = kInfinity;               ///< seconds; no larger bound is sought
  /// Labels that are extended and compared, at most.
  double most_work = search::kTuning.step_bound.most_work;
  /// Asked often; true ends the search with what is proven so far. Empty: never.
  std::function<bool()> is_over = {};
};

struct StepBound {
  double seconds = 0;
  StagePartition stages;  ///< of the least bound, if one below `enough` was found
};

/// Seconds up to `enough` that no schedule of any stages takes less than, as pipeline::play says:
/// stages on devices of their own, transfers that delay what waits for them alone, and what runs
/// once per step at the end. Infinite: no stages fit. All devices are used.
///
/// The bound of a partition is its longest path (path_bound.h). The least over all partitions is
/// found with labels: Pareto sets of sums of the layers from one on, per devices used and stages to
/// the end. It is exact up to a thousandth, or a tenth of what is left to `enough` (tuning.h),
/// unless the work ends, or the caller ends it; then the bound is what is proven so far.
StepBound step_bound(const StepBoundProblem& problem);

}  // namespace alpa::inter_op
