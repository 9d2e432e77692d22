#pragma once
/// The graph of a step from those of its stages, where only they are known: plan files have them.
#include <span>

#include "alpa/plan/pipeline_plan.h"

namespace alpa {

/// The step of which these are the stages, in the order in which they can run; a single stage is
/// the whole. What a stage is given is the value of that name that another one gives. Throws Error
/// if none gives it, if it has another type there, or if stages wait for each other in a circle.
Graph whole_graph(std::span<const StagePlan> stages);

}  // namespace alpa
