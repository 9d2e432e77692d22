#pragma once
/// Every partition into stages, of models and clusters that have few.
#include <cstddef>
#include <vector>

#include "stage.h"

namespace alpa::inter_op {

/// All partitions of so many layers into stages on `submeshes` that tile the cluster; none if there
/// are more than `most`.
std::vector<StagePartition> all_partitions(const Submesh& cluster,
                                           const std::vector<Submesh>& submeshes, int layers,
                                           std::size_t most);

}  // namespace alpa::inter_op
