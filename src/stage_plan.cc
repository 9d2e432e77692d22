// src/stage_plan.cc — meshes and seconds of one stage of a pipeline
#include "stage_plan.h"

#include "alpa/base/error.h"
#include "src/intra_op/evaluate.h"

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

/// Splits the plan's seconds into those of a micro-batch and those of the step.
void set_seconds(const cost::CostModel& model, StagePlan& stage) {
  const intra_op::GraphFacts facts(stage.graph);
  const intra_op::PartSeconds seconds = intra_op::part_seconds(stage.plan, facts, model);
  const auto add = [&](Region region, double step_seconds) {
    if (region == Region::apply)
      stage.apply_seconds += step_seconds;
    else
      stage.micro_batch_seconds += step_seconds / stage.graph.num_micro_batches;
  };
  for (std::size_t n = 0; n < seconds.nodes.size(); ++n)
    add(stage.graph.nodes[n].region, seconds.nodes[n]);
  for (std::size_t r = 0; r < seconds.reshards.size(); ++r)
    add(region_of_use(stage.graph, stage.plan.reshards[r].uses.front()), seconds.reshards[r]);
}

}  // namespace alpa
