#pragma once
/// The graph of a step, with the layers that its plan is made of.
#include <string>
#include <vector>

#include "alpa/compile/compiled_step.h"
#include "alpa/train/training_step.h"
#include "method_options.h"

namespace alpa {

/// The step's graph, with copies of parameters that are read in half precision
/// (src/train/parameter_copies.h). What plans are made for; all graphs of this header have them.
Graph trace(const TrainingStep& step, const TraceOptions& tracing);

/// The step's graph for this method: for `AutoLayers` with the layers that are found.
Graph trace(const TrainingStep& step, const MethodOptions& method);

/// The step's graph with a layer per node, as a plan file says. Throws Error naming `origin` if the
/// file was made for another number of nodes.
Graph trace(const TrainingStep& step, int num_micro_batches, const std::vector<int>& layers,
            const std::string& origin);

/// The step's graph with the layers of `leader`, the same step that computes others again.
Graph trace_like(const Graph& leader, const TrainingStep& step, int num_micro_batches);

/// The graph of a step that follows `leader`, a step on the same state. Its forward nodes have the
/// layers that they have in the leader, and it computes the same layers again.
Graph trace_following(const CompiledStep& leader, const TrainingStep& step, int num_micro_batches);

}  // namespace alpa
