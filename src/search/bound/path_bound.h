#pragma once
/// Lower bounds on a schedule by paths through it: a path runs through a stage's machine, and
/// leaves it now and then to follow a micro-batch to the last stage and back. Pure functions.
#include "alpa/plan/schedule_kind.h"

namespace alpa::inter_op {

/// Seconds of a stage, at least, if the largest of what stages run once per step takes from u1 to
/// u2 seconds, given by the caller.
struct StageRuns {
  double least = 0;    ///< forward and backward of a micro-batch, if it takes u2
  double most = 0;     ///< the same, if it takes u1
  double forward = 0;  ///< of `least`; with `backward` it may be less, where nothing else is known
  double backward = 0;
  double alone = 0;  ///< all its micro-batches, and what runs once
};

/// Least seconds of a suffix of a pipeline, or of none; smaller numbers are never worse.
struct PathSums {
  double to_end = 0;  ///< a micro-batch, through the suffix and back (`inference`: not back)
  double step = 0;    ///< the step, if the pipeline began here
  double forward = 0, backward = 0;  ///< the longest runs of a stage, where the schedule asks
};

struct PathSchedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int micro_batches = 1;
  double once = 0;  ///< u1

  /// Micro-batches in flight at a stage with so many stages after it, at least.
  int in_flight(int after) const;
  /// True if stages wait while all their micro-batches are in flight, as in 1F1B.
  bool waits_in_flight() const;

  /// Seconds that a stage before a suffix adds to the suffix's step, at least.
  double before(const StageRuns& stage, double transfer) const;

  /// With a stage before the suffix, `in_flight` micro-batches in flight there, and `transfer`
  /// seconds to pass a micro-batch to the suffix and back.
  ///
  /// 1F1B, of B micro-batches, n in flight, t = forward + backward, and r seconds to the end and
  /// back behind the stage, takes B·t + max(0, r - (n-1)·min(forward, backward)) of the stage's
  /// machine: F0 … F(n-1) B0 Fn B1 …, where r replaces what lies between the runs of the first
  /// micro-batch, or the last one. If n < B the path may leave for both, and for every n-th between
  /// them: B·t + 2r - (n-1)·t + (⌊(B-1)/n⌋ - 1)·max(0, r - (n-1)·t). GPipe takes exactly
  /// Σ t + (B-1)·(max forward + max backward).
  PathSums with_stage(const PathSums& behind, const StageRuns& stage, double transfer,
                      int in_flight) const;
};

}  // namespace alpa::inter_op
