#pragma once
/// Metrics of a step in all processes.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/runtime/background.h"
#include "src/runtime/held_parts.h"

namespace alpa::runtime {

/// Every metric, by number, from the process of the first device that reports it: decisions that
/// programs take by it agree. Collective; the world of `placement`.
/// With them goes rank 0's view of what is in the background.
void share_metrics(std::vector<double>& values, const Programs& programs,
                   const Placement& placement,
                   const std::vector<std::shared_ptr<Background>>& background);

/// Throws Error naming a metric of this step that is not finite.
void check_finite(const std::map<std::string, double>& values, std::int64_t step);

}  // namespace alpa::runtime
