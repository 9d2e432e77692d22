#pragma once
/// Shared by the passes over partitioned programs.
#include <vector>

#include "alpa/spmd/program.h"

namespace alpa {

/// `program` with these nodes instead, in this order; they name values by their numbers in `program`.
/// Values are numbered anew in order of definition, those no longer defined vanish. Inputs, updates and
/// metrics are kept.
SpmdProgram with_nodes(const SpmdProgram& program, std::vector<Node> nodes);

/// Combiner of the partial results on `axis`. Throws Bug if there are none.
Combiner combiner_on(const ShardingSpec& spec, int axis);

}  // namespace alpa
