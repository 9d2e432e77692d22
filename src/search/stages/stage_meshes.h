#pragma once
/// The devices of a stage as logical meshes.
#include <vector>

#include "alpa/mesh/cluster.h"
#include "src/search/bound/submesh.h"

namespace alpa {

/// `devices` devices of a cluster as a part of a host or as whole hosts. Throws
/// Error if they are neither.
inter_op::Submesh submesh_of(const Cluster& cluster, int devices);

/// The logical meshes of a part of the cluster with these device ids: of this shape, or, if it
/// is empty, of every shape.
std::vector<DeviceMesh> logical_meshes(const Cluster& cluster, const inter_op::Submesh& submesh,
                                       const std::vector<int>& devices,
                                       const std::vector<int>& shape = {});

}  // namespace alpa
