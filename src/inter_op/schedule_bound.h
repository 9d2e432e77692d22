#pragma once
/// A lower bound on the seconds that a schedule takes, over all ways to cut layers into stages.
/// Pure functions, safe to call from several threads.
#include <functional>

#include "alpa/pipeline/schedule_kind.h"
#include "src/inter_op/best_partition.h"
#include "src/inter_op/step_bound.h"

namespace alpa::inter_op {

struct ScheduleBoundProblem {
  /// Its tables say what a micro-batch takes at least, with its share of what runs once per step.
  /// Transfers are those of a micro-batch, there and back.
  const PartitionProblem& stages;
  /// What a micro-batch takes at least, once per step left out.
  std::function<LeastRuns(int first, int last, int submesh)> runs;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  /// Whether reductions of gradients may hide behind the last backward run.
  bool hides_gradients = false;
  /// Whether it is counted what stages wait, as far as that takes little time.
  bool counts_waits = true;
  double enough = 0;  ///< seconds; no larger bound is sought
};

struct ScheduleBound {
  double seconds = 0;
  StagePartition least;  ///< stages that may take less than `enough`, as far as is known
};

/// Seconds up to `enough` that no schedule of any stages takes less than, as pipeline::play says:
/// stages on devices of their own, transfers that delay what waits for them alone, and what runs
/// once per step at the end. Infinite: no stages fit.
///
/// With s the slowest stage of T seconds a micro-batch, B micro-batches, n of them in flight at s,
/// and R the seconds of the stages and transfers behind s, 1F1B takes at least
///   Σ (before s) + B·T + max(0, R - (n - 1)·forward) + max(0, R - (n - 1)·backward):
/// the first micro-batch must come to s; s computes; it waits for the first and the last
/// micro-batch to come back, while it runs no more than n - 1 others forward, or backward. And any
/// stage of t seconds takes at least (R + t)·⌈B / n⌉ + (m - 1)·t / 2: each round of n begins when
/// those before come back, and the m of the last round run one after another.
/// The larger one of this bound and of the one by paths (step_bound.h).
ScheduleBound schedule_bound(const ScheduleBoundProblem& problem);

}  // namespace alpa::inter_op
