// src/search/stages/stage_meshes.cc — parts of the cluster, and the logical meshes of their devices
#include "src/search/stages/stage_meshes.h"

#include "alpa/base/error.h"

namespace alpa {

inter_op::Submesh submesh_of(const Cluster& cluster, int devices) {
  const int per_host = cluster.devices_per_host;
  if (devices <= per_host) return {1, devices};
  require(devices % per_host == 0,
          "stages: {} devices are neither part of a host of {} nor whole hosts; choose another "
          "number of devices",
          devices, per_host);
  return {devices / per_host, per_host};
}

std::vector<DeviceMesh> logical_meshes(const Cluster& cluster, const inter_op::Submesh& submesh,
                                       const std::vector<int>& devices,
                                       const std::vector<int>& shape) {
  const Cluster part = cluster.submesh(submesh.hosts, submesh.devices);
  std::vector<std::vector<int>> shapes = {shape};
  if (shape.empty()) shapes = logical_mesh_shapes(part.num_devices());
  std::vector<DeviceMesh> meshes;
  for (const std::vector<int>& candidate : shapes) {
    const DeviceMesh mesh = part.mesh(candidate);
    std::vector<int> ids;
    for (int device : mesh.devices()) ids.push_back(devices[device]);
    meshes.emplace_back(mesh.axes(), std::move(ids));
  }
  return meshes;
}

}  // namespace alpa
