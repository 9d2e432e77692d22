#pragma once
/// Pipeline schedules: the order in which each mesh runs its parts of a step. A schedule is
/// data, a function of the numbers of stages and micro-batches; lists, slots, memory and
/// transfers follow from it.
#include <string>
#include <string_view>
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa::pipeline {

/// One run of a mesh's nodes of one region.
struct RegionRun {
  Region region = Region::forward;
  int micro_batch = 0;  ///< 0 in region apply
  bool operator==(const RegionRun&) const = default;
};

/// Per mesh of a program, its runs in order: forward and backward of every
/// micro-batch, in ascending order, then apply. Empty: the step of one mesh, which
/// keeps forward and backward together.
using PipelineSchedule = std::vector<std::vector<RegionRun>>;

/// The schedules by name.
enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, one_f_one_b_overlap, inference };

/// "gpipe", "1f1b", "1f1b_overlap" or "inference".
std::string_view name_of(ScheduleKind kind);

/// The schedule of this name. Throws Error that lists the known names.
ScheduleKind parse_schedule(std::string_view name);

/// The schedule of this kind. Throws Error unless both numbers are positive.
PipelineSchedule make_schedule(ScheduleKind kind, int stages, int micro_batches);

/// All forward runs, then all backward runs (GPipe, arXiv 1811.06965). Every micro-batch is in
/// flight at once. Throws Error unless both numbers are positive.
PipelineSchedule gpipe(int stages, int micro_batches);

/// Stage s runs forward stages - s micro-batches ahead, then backward and forward in turn
/// (PipeDream-flush, arXiv 2006.09503): at most min(micro_batches, stages - s) are in flight.
/// Throws Error unless both numbers are positive.
PipelineSchedule one_f_one_b(int stages, int micro_batches);

/// 1F1B whose stage s runs forward up to 2(stages - s) - 1 micro-batches ahead (eager 1F1B, arXiv
/// 2211.05322): more memory, in which transfers overlap with compute. Throws Error unless both
/// numbers are positive.
PipelineSchedule one_f_one_b_overlap(int stages, int micro_batches);

/// All forward runs, then apply: steps without gradients. Throws Error unless both numbers are
/// positive.
PipelineSchedule inference(int stages, int micro_batches);

/// One line per mesh: "F0 F1 B0 B1 apply".
std::string to_string(const PipelineSchedule& schedule);

}  // namespace alpa::pipeline
