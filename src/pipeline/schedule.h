#pragma once
/// Pipeline schedules: the order in which each mesh runs its parts of a step. A schedule is
/// data, a function of the numbers of stages and micro-batches; lists, slots, memory and
/// transfers follow from it.
#include <string>
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

/// All forward runs, then all backward runs (GPipe, arXiv 1811.06965). Every micro-batch is in
/// flight at once. Throws Error unless both numbers are positive.
PipelineSchedule gpipe(int stages, int micro_batches);

/// Stage s runs forward stages - s micro-batches ahead, then backward and forward in turn
/// (PipeDream-flush, arXiv 2006.09503): at most min(micro_batches, stages - s) are in flight.
/// Throws Error unless both numbers are positive.
PipelineSchedule one_f_one_b(int stages, int micro_batches);

/// One line per mesh: "F0 F1 B0 B1 apply".
std::string to_string(const PipelineSchedule& schedule);

}  // namespace alpa::pipeline
