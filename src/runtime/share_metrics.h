#pragma once
/// Metrics of a step in all processes.
#include <vector>

#include "src/runtime/held_parts.h"

namespace alpa::runtime {

/// Every metric, by number, from the process of the first device that reports it: decisions that
/// programs take by it agree. Collective; the world of `placement`.
void share_metrics(std::vector<double>& values, const Programs& programs,
                   const Placement& placement);

}  // namespace alpa::runtime
