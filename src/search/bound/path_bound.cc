// src/search/bound/path_bound.cc — sums along the longest of a few paths through a schedule
#include "src/search/bound/path_bound.h"

#include <algorithm>

#include "src/plan/schedules/schedule.h"

namespace alpa::inter_op {

int PathSchedule::in_flight(int after) const {
  return pipeline::most_in_flight(kind, after, after + 1, micro_batches);
}

bool PathSchedule::waits_in_flight() const {
  return kind == ScheduleKind::one_f_one_b || kind == ScheduleKind::one_f_one_b_overlap;
}

double PathSchedule::before(const StageRuns& stage, double transfer) const {
  switch (kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::one_f_one_b:
    case ScheduleKind::one_f_one_b_overlap: return stage.least + transfer;
    case ScheduleKind::inference: return stage.least + transfer / 2;
    case ScheduleKind::zero_bubble: return stage.forward + transfer / 2;
    case ScheduleKind::interleaved_one_f_one_b: return 0;
  }
  return 0;
}

PathSums PathSchedule::with_stage(const PathSums& behind, const StageRuns& stage, double transfer,
                                  int in_flight) const {
  const double before = this->before(stage, transfer);
  PathSums sums{.to_end = behind.to_end + before,
                .step = std::max(behind.step + before, stage.alone)};
  const double r = sums.to_end - stage.least;  // behind the stage, and back to it
  if (kind == ScheduleKind::zero_bubble || kind == ScheduleKind::interleaved_one_f_one_b)
    return {.to_end = 0, .step = sums.step};
  if (!waits_in_flight()) {
    sums.forward = std::max(behind.forward, stage.forward);
    sums.backward = std::max(behind.backward, stage.backward);
    sums.step =
        std::max({sums.step, r + stage.alone,
                  sums.to_end + once + (micro_batches - 1) * (sums.forward + sums.backward)});
    return sums;
  }
  const double longer = std::max({stage.forward, stage.backward, stage.least / 2});
  const int others = in_flight - 1, rounds = (micro_batches - 1) / in_flight;
  const auto gained = [&](double runs) {
    double most = std::max(0.0, r - others * (runs - longer));
    if (rounds > 0)
      most =
          std::max(most, 2 * r - others * runs + (rounds - 1) * std::max(0.0, r - others * runs));
    return most;
  };
  // The whole grows with the stage's seconds, what is gained shrinks.
  sums.step = std::max({sums.step, stage.alone + gained(stage.most),
                        once + micro_batches * stage.least + gained(stage.least)});
  return sums;
}

}  // namespace alpa::inter_op
