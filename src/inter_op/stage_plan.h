#pragma once
/// The plan of one stage of a pipeline.
#include <vector>

#include "alpa/inter_op/plan.h"
#include "alpa/mesh/cluster.h"
#include "src/cost/cost_model.h"
#include "submesh.h"

namespace alpa {

/// `devices` devices of a cluster as a part of a host or as whole hosts. Throws
/// Error if they are neither.
inter_op::Submesh submesh_of(const Cluster& cluster, int devices);

/// The logical meshes of a part of the cluster with these device ids: of this shape, or, if it
/// is empty, of every shape.
std::vector<DeviceMesh> logical_meshes(const Cluster& cluster, const inter_op::Submesh& submesh,
                                       const std::vector<int>& devices,
                                       const std::vector<int>& shape = {});

/// The seconds of a stage under its plan, without transfers.
StageSeconds stage_seconds(const ShardingPlan& plan, const Graph& graph,
                           const cost::CostModel& model);

}  // namespace alpa
