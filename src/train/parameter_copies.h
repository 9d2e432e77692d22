#pragma once
/// Parameters that layers read in half precision are kept in it beside their masters, so that no
/// micro-batch converts them.
#include "alpa/ir/graph.h"

namespace alpa {

/// `graph`, a step that updates parameters, with a state "<parameter>.bf16" (or f16) in place of
/// every conversion of a parameter to half precision. What updates a parameter makes the copy, too:
/// as one more result, or as a conversion in region apply. Results are the same, bit for bit. A
/// graph without updates of parameters stays as it is. Copies take memory for the whole step.
Graph with_parameter_copies(Graph graph);

/// True if micro-batches of a step that updates parameters convert some, which have no copies then.
bool converts_parameters(const Graph& graph);

/// The same for a step that works on the state of `leader`: with the copies that `leader` has, and
/// no others. What updates a parameter updates its copy even if nothing reads it here.
Graph with_parameter_copies_of(const Graph& leader, Graph graph);

}  // namespace alpa
