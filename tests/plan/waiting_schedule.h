#pragma once
/// A schedule that cannot end.
#include "src/plan/schedules/schedule.h"

namespace alpa::testing {

/// Two stages and micro-batches: the first stage wants the gradient of micro-batch 0 before it has
/// sent micro-batch 1, and the second one begins backward when it has both.
inline pipeline::PipelineSchedule waiting_schedule() {
  pipeline::PipelineSchedule schedule = pipeline::gpipe(2, 2);
  schedule[0] = {{Region::forward, 0},
                 {Region::backward, 0},
                 {Region::forward, 1},
                 {Region::backward, 1},
                 {Region::apply, 0}};
  return schedule;
}

}  // namespace alpa::testing
