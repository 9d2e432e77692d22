#pragma once
/// Pipeline schedules: the order in which each mesh runs its parts of a step. A schedule is
/// data, a function of the numbers of stages and micro-batches; lists, slots, memory and
/// transfers follow from it.
#include <string>
#include <vector>

#include "alpa/ir/graph.h"
#include "alpa/plan/schedule_kind.h"

namespace alpa::pipeline {

/// Part of the gradients that a backward run computes: everything, or only what other meshes wait
/// for (the gradients of a stage's inputs), or the rest (those of its weights).
enum class GradientPart : std::uint8_t { all, inputs, weights };

/// One run of a mesh's nodes of one region.
struct RegionRun {
  Region region = Region::forward;
  int micro_batch = 0;  ///< 0 in region apply
  /// which of the mesh's stages, if it has several; 0 in region apply
  int chunk = 0;
  GradientPart part = GradientPart::all;  ///< of region backward
  bool operator==(const RegionRun&) const = default;
};

/// Per mesh, its runs in order: forward and backward of every micro-batch, in ascending order
/// for each of its stages, then apply. Backward runs are whole, or all are in two parts. Stage
/// s is on mesh s % meshes, as chunk s / meshes. Empty: the step of one mesh, which keeps
/// forward and backward together.
using PipelineSchedule = std::vector<std::vector<RegionRun>>;

/// The schedule of this kind. With `at_once` above 0, in rounds of so many micro-batches, of which
/// the last may have fewer: a mesh keeps no more in flight than in a step of `at_once`. Throws
/// Error unless the numbers are positive, and unless `stages_per_mesh` is 1 (interleaved_1f1b: at
/// least 2).
PipelineSchedule make_schedule(ScheduleKind kind, int meshes, int micro_batches,
                               int stages_per_mesh = 1, int at_once = 0);

/// Micro-batches in flight at a stage that has `after` of `stages` stages after it, at most: more
/// than a schedule keeps where it depends on more than that. A single stage keeps forward and
/// backward runs together.
int most_in_flight(ScheduleKind kind, int after, int stages, int micro_batches);

/// All forward runs, then all backward runs (GPipe, arXiv 1811.06965). Every micro-batch is in
/// flight at once. Throws Error unless both numbers are positive.
PipelineSchedule gpipe(int stages, int micro_batches);

/// Stage s runs forward stages - s micro-batches ahead, then backward and forward in turn
/// (PipeDream-flush, arXiv 2006.09503): at most min(micro_batches, stages - s) are in flight.
/// Throws Error unless both numbers are positive.
PipelineSchedule one_f_one_b(int stages, int micro_batches);

/// 1F1B whose stage s runs forward up to 2(stages - s) - 1 micro-batches ahead (eager 1F1B,
/// arXiv 2211.05322): more memory, in which transfers overlap with compute. Throws Error unless
/// both numbers are positive.
PipelineSchedule one_f_one_b_overlap(int stages, int micro_batches);

/// 1F1B over several stages per mesh (Megatron-LM, arXiv 2104.04473): the micro-batches pass
/// through the meshes once per chunk, in groups of as many as there are meshes; a last group of
/// fewer leaves out the runs of those that it lacks. The bubble is that of 1F1B divided by `chunks`
/// if all groups are whole. Throws Error unless there are several chunks and both other numbers are
/// positive.
PipelineSchedule interleaved_one_f_one_b(int meshes, int chunks, int micro_batches);

/// 1F1B whose backward runs are split, so that gradients of weights fill the bubbles (ZB-H1, arXiv
/// 2401.10241). Mesh i computes them i micro-batches late, so every mesh keeps as many
/// micro-batches in flight as the first one does in 1F1B. Where W (gradients of weights) takes no
/// longer than F (forward) and B (gradients of inputs), the bubble is (meshes - 1)(F + B - W), in
/// 1F1B (meshes - 1)(F + B + W). Throws Error unless both numbers are positive.
PipelineSchedule zero_bubble(int meshes, int micro_batches);

/// All forward runs, then apply: steps without gradients. Throws Error unless
/// both numbers are positive.
PipelineSchedule inference(int stages, int micro_batches);

/// "F0", "B0", of chunk 1 "F0/1", gradients of weights "W0"; "apply".
std::string to_string(const RegionRun& run);

/// One line per mesh: "F0 F1 B0 B1 apply".
std::string to_string(const PipelineSchedule& schedule);

}  // namespace alpa::pipeline
