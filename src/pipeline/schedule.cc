// src/pipeline/schedule.cc — orders of forward and backward runs, per stage
//
//   gpipe(2, 3)        F0 F1 F2 B0 B1 B2 apply      one_f_one_b(2, 3)   F0 F1 B0 F2 B1 B2 apply
//                      F0 F1 F2 B0 B1 B2 apply                          F0 B0 F1 B1 F2 B2 apply
#include "src/pipeline/schedule.h"

#include <algorithm>
#include <array>

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

/// The one table of schedules, in the order of ScheduleKind.
struct Entry {
  std::string_view name;
  PipelineSchedule (*make)(int stages, int micro_batches);
};
constexpr std::array<Entry, 4> kSchedules{{{"gpipe", gpipe},
                                           {"1f1b", one_f_one_b},
                                           {"1f1b_overlap", one_f_one_b_overlap},
                                           {"inference", inference}}};

}  // namespace

std::string_view name_of(ScheduleKind kind) { return kSchedules[static_cast<int>(kind)].name; }

ScheduleKind parse_schedule(std::string_view name) {
  std::string known;
  for (std::size_t kind = 0; kind < kSchedules.size(); ++kind) {
    if (kSchedules[kind].name == name) return static_cast<ScheduleKind>(kind);
    known += fmt::format("{}{}", kind == 0 ? "" : ", ", kSchedules[kind].name);
  }
  fail("schedule: \"{}\" is not known; known are {}", excerpt(name), known);
}

PipelineSchedule make_schedule(ScheduleKind kind, int stages, int micro_batches) {
  return kSchedules[static_cast<int>(kind)].make(stages, micro_batches);
}

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

PipelineSchedule one_f_one_b_overlap(int stages, int micro_batches) {
  check("one_f_one_b_overlap", stages, micro_batches);
  PipelineSchedule schedule;
  for (int stage = 0; stage < stages; ++stage)
    schedule.push_back(
        forward_ahead(std::min(micro_batches, 2 * (stages - stage) - 1), micro_batches));
  return schedule;
}

PipelineSchedule inference(int stages, int micro_batches) {
  check("inference", stages, micro_batches);
  std::vector<RegionRun> runs;
  for (int m = 0; m < micro_batches; ++m) runs.push_back({Region::forward, m});
  runs.push_back({Region::apply, 0});
  return PipelineSchedule(stages, runs);
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
