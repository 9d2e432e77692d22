#pragma once
/// Stages without a search: uniform ones, and those that a user gives. Pure functions, safe to call
/// from several threads.
#include <vector>

#include "src/search/bound/stage.h"

namespace alpa::inter_op {

/// Submeshes of `stages` equal parts of `cluster`: parts of hosts, or whole hosts. Of a single host
/// whose devices are no multiple of the stages, the first parts have one device more. Throws Error
/// if there are none.
std::vector<Submesh> equal_submeshes(const Submesh& cluster, int stages);

/// A stage on each of `submeshes`. The largest FLOPs per device of a stage are minimal, then
/// the sum of their squares; on a tie later stages have more layers, because earlier ones keep more
/// micro-batches in flight. `layer_flops` has the FLOPs of every layer. Throws Error unless there
/// are at least as many layers as stages.
StagePartition uniform_stages(const std::vector<double>& layer_flops,
                              const std::vector<Submesh>& submeshes);

/// Stages as a user gives them.
struct GivenStages {
  std::vector<std::vector<int>> layers;  ///< per stage its layers, ascending
  std::vector<Submesh> submeshes;        ///< per stage; empty: equal parts of the cluster
  /// Per stage the sizes of its logical mesh; empty: the planner's choice.
  std::vector<std::vector<int>> logical_shapes = {};
};

/// The given stages of a model with `layers` layers. Configuration s is `logical_shapes[s]`, or -1
/// if there are none. Throws Error unless each layer is in one stage, in order, and the submeshes
/// tile the cluster and have as many devices as the logical shapes.
StagePartition manual_stages(const GivenStages& given, int layers, const Submesh& cluster);

}  // namespace alpa::inter_op
