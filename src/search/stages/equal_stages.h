#pragma once
/// Equal stages of a pipeline, such as those of repeated layers, are planned once.
#include <cstdint>
#include <optional>
#include <vector>

#include "src/ir/subgraph.h"
#include "src/search/stages/cut_stages.h"
#include "src/search/stages/plan_stage.h"

namespace alpa {

/// All that the plan of a stage depends on, with equal options. What it refers to outlives it.
struct StageToPlan {
  const Graph& graph;
  const std::vector<DeviceMesh>& meshes;  ///< to choose from
  StageLimit limit;
  const BoundaryBatchDims& batch_dims;
  std::uint64_t hash = layer_hash(graph);
};

/// True if the plan of one is that of the other on other devices: graphs are equal but for names
/// and the numbers of layers, meshes but for devices, and limits, if there are any.
bool are_equal(const StageToPlan& a, const StageToPlan& b);

/// The stages planned so far, each kind once. Not for several threads.
class EqualStages {
 public:
  /// The plan of an equal stage, on the devices of this one; none if there was none.
  std::optional<ShardingPlan> find(const StageToPlan& stage) const;
  /// `plan`: the stage's; outlives this, as what `stage` refers to does.
  void add(const StageToPlan& stage, const ShardingPlan& plan);

 private:
  struct Planned {
    StageToPlan stage;
    const ShardingPlan& plan;
  };
  std::vector<Planned> planned_;
};

}  // namespace alpa
