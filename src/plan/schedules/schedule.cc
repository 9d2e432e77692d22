// src/plan/schedules/schedule.cc — orders of forward and backward runs, per stage
//
//   gpipe(2, 3)        F0 F1 F2 B0 B1 B2 apply      one_f_one_b(2, 3)   F0 F1 B0 F2 B1 B2 apply
//                      F0 F1 F2 B0 B1 B2 apply                          F0 B0 F1 B1 F2 B2 apply
//
//   zero_bubble(2, 3)  F0 F1 B0 W0 F2 B1 W1 B2 W2 apply
//                      F0 B0 F1 B1 W0 F2 B2 W1 W2 apply
#include "src/plan/schedules/schedule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>

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

/// Run number `k` of the forward runs of all chunks: groups of as many micro-batches as meshes pass
/// through one chunk after the other.
RegionRun interleaved(Region region, int k, int meshes, int chunks) {
  const int chunk = k / meshes % chunks;
  return {region, k / (meshes * chunks) * meshes + k % meshes,
          region == Region::forward ? chunk : chunks - 1 - chunk};
}

/// The schedules of `make(count)` for rounds of `at_once` micro-batches, one after another.
template <class Make>
PipelineSchedule in_rounds(int micro_batches, int at_once, Make&& make) {
  PipelineSchedule schedule = make(std::min(at_once, micro_batches));
  for (int first = at_once; first < micro_batches; first += at_once) {
    const PipelineSchedule round = make(std::min(at_once, micro_batches - first));
    for (std::size_t mesh = 0; mesh < round.size(); ++mesh) {
      schedule[mesh].pop_back();  // apply: once, behind the last round
      for (RegionRun run : round[mesh]) {
        if (run.region != Region::apply) run.micro_batch += first;
        schedule[mesh].push_back(run);
      }
    }
  }
  return schedule;
}

using MakeSchedule = PipelineSchedule (*)(int stages, int micro_batches);

/// The one table of schedules, in the order of ScheduleKind.
struct Entry {
  std::string_view name;
  MakeSchedule make;  ///< null: of several stages per mesh
};
constexpr auto kSchedules = std::to_array<Entry>({
    {"gpipe", gpipe},
    {"1f1b", one_f_one_b},
    {"1f1b_overlap", one_f_one_b_overlap},
    {"interleaved_1f1b", nullptr},
    {"zero_bubble", zero_bubble},
    {"inference", inference},
});

}  // namespace

PipelineSchedule make_schedule(ScheduleKind kind, int meshes, int micro_batches,
                               int stages_per_mesh, int at_once) {
  const MakeSchedule make = kSchedules[static_cast<int>(kind)].make;
  require(!make || stages_per_mesh == 1,
          "{}: {} stages per mesh; give one, or choose interleaved_1f1b, which runs several",
          name_of(kind), stages_per_mesh);
  return in_rounds(micro_batches, at_once > 0 ? at_once : std::max(1, micro_batches), [&](int of) {
    return make ? make(meshes, of) : interleaved_one_f_one_b(meshes, stages_per_mesh, of);
  });
}

int most_in_flight(ScheduleKind kind, int after, int stages, int micro_batches) {
  if (stages == 1) return 1;
  switch (kind) {
    case ScheduleKind::one_f_one_b: return std::min(micro_batches, after + 1);
    case ScheduleKind::one_f_one_b_overlap: return std::min(micro_batches, 2 * after + 1);
    case ScheduleKind::zero_bubble: return std::min(micro_batches, stages);
    case ScheduleKind::inference: return 1;
    case ScheduleKind::gpipe:
    case ScheduleKind::interleaved_one_f_one_b: return micro_batches;
  }
  bug("schedule {} has no number of micro-batches in flight", static_cast<int>(kind));
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

PipelineSchedule interleaved_one_f_one_b(int meshes, int chunks, int micro_batches) {
  check("interleaved_1f1b", meshes, micro_batches);
  require(chunks > 1, "interleaved_1f1b: stages per mesh: {}; give at least 2, or choose 1f1b",
          chunks);
  PipelineSchedule schedule(meshes);
  const int groups = (micro_batches + meshes - 1) / meshes, runs = chunks * groups * meshes;
  for (int mesh = 0; mesh < meshes; ++mesh) {
    const int ahead = std::min(runs, 2 * (meshes - mesh - 1) + (chunks - 1) * meshes + 1);
    for (int k = 0; k < runs + ahead - 1; ++k) {
      if (k < runs) schedule[mesh].push_back(interleaved(Region::forward, k, meshes, chunks));
      if (k >= ahead - 1)
        schedule[mesh].push_back(interleaved(Region::backward, k - ahead + 1, meshes, chunks));
    }
    // Micro-batches wait for no others, so those that would fill the last group can be left out.
    std::erase_if(schedule[mesh],
                  [&](const RegionRun& run) { return run.micro_batch >= micro_batches; });
    schedule[mesh].push_back({Region::apply, 0});
  }
  return schedule;
}

PipelineSchedule zero_bubble(int meshes, int micro_batches) {
  check("zero_bubble", meshes, micro_batches);
  PipelineSchedule schedule(meshes);
  for (int mesh = 0; mesh < meshes; ++mesh) {
    const auto add = [&](Region region, int m, GradientPart part) {
      if (m >= 0 && m < micro_batches) schedule[mesh].push_back({region, m, 0, part});
    };
    const int ahead = std::min(micro_batches, meshes - mesh);
    for (int m = 0; m < ahead; ++m) add(Region::forward, m, GradientPart::all);
    for (int m = 0; m < micro_batches + mesh; ++m) {
      add(Region::backward, m, GradientPart::inputs);
      add(Region::backward, m - mesh, GradientPart::weights);
      add(Region::forward, m + ahead, GradientPart::all);
    }
    schedule[mesh].push_back({Region::apply, 0});
  }
  return schedule;
}

PipelineSchedule inference(int stages, int micro_batches) {
  check("inference", stages, micro_batches);
  std::vector<RegionRun> runs;
  for (int m = 0; m < micro_batches; ++m) runs.push_back({Region::forward, m});
  runs.push_back({Region::apply, 0});
  return PipelineSchedule(stages, runs);
}

std::string to_string(const RegionRun& run) {
  if (run.region == Region::apply) return "apply";
  const char kind = run.region == Region::forward       ? 'F'
                    : run.part == GradientPart::weights ? 'W'
                                                        : 'B';
  const std::string text = fmt::format("{}{}", kind, run.micro_batch);
  return run.chunk == 0 ? text : fmt::format("{}/{}", text, run.chunk);
}

std::string to_string(const PipelineSchedule& schedule) {
  std::string text;
  for (const std::vector<RegionRun>& runs : schedule) {
    for (const RegionRun& run : runs) text += (&run == runs.data() ? "" : " ") + to_string(run);
    text += "\n";
  }
  return text;
}

}  // namespace alpa::pipeline

namespace alpa {

std::string_view name_of(ScheduleKind kind) {
  return pipeline::kSchedules[static_cast<int>(kind)].name;
}

ScheduleKind parse_schedule(std::string_view name) {
  const auto& schedules = pipeline::kSchedules;
  const auto* found = std::ranges::find(schedules, name, &pipeline::Entry::name);
  if (found != schedules.end()) return static_cast<ScheduleKind>(found - schedules.begin());
  fail("schedule: \"{}\" is not known; known are {}", excerpt(name),
       fmt::join(schedules | std::views::transform(&pipeline::Entry::name), ", "));
}

}  // namespace alpa
