// src/pipeline/schedule.cc — orders of forward and backward runs, per stage
//
//   gpipe(2, 3)        F0 F1 F2 B0 B1 B2 apply      one_f_one_b(2, 3)   F0 F1 B0 F2 B1 B2 apply
//                      F0 F1 F2 B0 B1 B2 apply                          F0 B0 F1 B1 F2 B2 apply
#include "src/pipeline/schedule.h"

#include <algorithm>

#include "alpa/base/error.h"

namespace alpa::pipeline {
namespace {

void check(const char* name, int stages, int micro_batches) {
  require(stages > 0 && micro_batches > 0,
          "{}: {} stages and {} micro-batches; give at least one of each", name, stages,
          micro_batches);
}

/// Forward runs `ahead` of the backward run of the same micro-batch, that one included.
std::vector<RegionRun> forward_ahead(int ahead, int micro_batches) {
  std::vector<RegionRun> runs;
  for (int m = 0; m < micro_batches + ahead - 1; ++m) {
    if (m < micro_batches) runs.push_back({Region::forward, m});
    if (m >= ahead - 1) runs.push_back({Region::backward, m - ahead + 1});
  }
  runs.push_back({Region::apply, 0});
  return runs;
}

}  // namespace

PipelineSchedule gpipe(int stages, int micro_batches) {
  check("gpipe", stages, micro_batches);
  return PipelineSchedule(stages, forward_ahead(micro_batches, micro_batches));
}

PipelineSchedule one_f_one_b(int stages, int micro_batches) {
  check("one_f_one_b", stages, micro_batches);
  PipelineSchedule schedule;
  for (int stage = 0; stage < stages; ++stage)
    schedule.push_back(forward_ahead(std::min(micro_batches, stages - stage), micro_batches));
  return schedule;
}

std::string to_string(const PipelineSchedule& schedule) {
  std::string text;
  for (const std::vector<RegionRun>& runs : schedule) {
    for (const RegionRun& run : runs) {
      if (&run != runs.data()) text += " ";
      text += run.region == Region::apply
                  ? "apply"
                  : fmt::format("{}{}", run.region == Region::forward ? "F" : "B", run.micro_batch);
    }
    text += "\n";
  }
  return text;
}

}  // namespace alpa::pipeline
