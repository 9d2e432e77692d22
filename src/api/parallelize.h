#pragma once
/// The compiler's passes behind a plan, for tools that check plans.
#include "alpa/parallelize.h"
#include "src/compile/lower_program.h"

namespace alpa {

/// From a planned graph to device programs, of which every pass is verified. The result may exceed
/// the target's budget. Throws Error for a plan that contradicts its graph.
CompiledStep run_passes(const Graph& graph, Plan plan, const LoweringTarget& target);

}  // namespace alpa
