#pragma once
/// Compiles a step along the plan of another step that works on the same state.
#include <cstdint>
#include <functional>
#include <span>

#include "alpa/compile/compiled_step.h"
#include "alpa/train/training_step.h"
#include "lower_program.h"
#include "method_options.h"

namespace alpa {

/// A step that follows `leader`, and how its plan is lowered.
struct FollowRequest {
  const TrainingStep& step;
  const CompiledStep& leader;
  lower::StateLayout state;  ///< of the leader's states
  const MethodOptions& method;
  const Cluster& cluster;
  std::function<CompiledStep(const Graph& graph, Plan plan, const LoweringTarget& target)> lower;
};

/// `first`, whose states are also those that a step of `followers` updates and it lacks, such as
/// the moments of parameters that it reads but does not train. It neither reads nor changes them.
TrainingStep with_states_of(const TrainingStep& first, std::span<const TrainingStep> followers);

/// Step number `number` of a call, counted from 1. It has as many micro-batches as the leader, or
/// the next larger number that divides its batch. Throws Error if it exceeds the memory budget, and
/// as intra_op::follow does.
CompiledStep follow(const FollowRequest& request, std::size_t number);

/// A step that joins later, of one micro-batch. Throws Error likewise.
CompiledStep follow_later(const FollowRequest& request);

/// The leader's step for a batch of fewer rows than the leader's `whole_rows`. It is packed to fit
/// into `room` bytes of a device, beside the states as they are. If it cannot be, they get more
/// room within the memory budget. Throws Error if it exceeds that.
CompiledStep follow_in_short_batch(const FollowRequest& request, std::int64_t rows,
                                   std::int64_t whole_rows, std::int64_t room);

}  // namespace alpa
