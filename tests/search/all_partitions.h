#pragma once
/// Every partition of few layers into stages, for brute force.
#include <vector>

#include "alpa/base/error.h"
#include "src/search/bound/stage.h"

namespace alpa::testing {

/// Appends to `all` the partitions that begin as `begun` and go on with layers from `first` on, on
/// so many devices that are left.
inline void append_partitions(const inter_op::Submesh& cluster,
                              const std::vector<inter_op::Submesh>& submeshes, int layers,
                              int first, int devices_left, inter_op::StagePartition& begun,
                              std::vector<inter_op::StagePartition>& all) {
  if (first == layers && devices_left == 0) try {
      inter_op::place_in_order(cluster, submeshes_of(begun));
      all.push_back(begun);
    } catch (const Error&) {  // no host has room for some stage
    }
  for (const inter_op::Submesh& submesh : submeshes) {
    const int left = devices_left - submesh.num_devices();
    for (int last = first; left >= 0 && last < layers; ++last) {
      begun.stages.push_back({first, last, submesh, -1});
      append_partitions(cluster, submeshes, layers, last + 1, left, begun, all);
      begun.stages.pop_back();
    }
  }
}

/// All partitions of so many layers into stages on `submeshes` that tile the cluster.
inline std::vector<inter_op::StagePartition> all_partitions(
    const inter_op::Submesh& cluster, const std::vector<inter_op::Submesh>& submeshes, int layers) {
  inter_op::StagePartition begun;
  std::vector<inter_op::StagePartition> all;
  append_partitions(cluster, submeshes, layers, 0, cluster.num_devices(), begun, all);
  return all;
}

}  // namespace alpa::testing
