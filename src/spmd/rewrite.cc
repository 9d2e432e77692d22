#include "rewrite.h"

#include <algorithm>

#include "alpa/base/error.h"

namespace alpa {

MeshPlace place_of(const SpmdProgram& program, int device) {
  for (std::size_t m = 0; m < program.meshes.size(); ++m) {
    const std::vector<int>& devices = program.meshes[m].devices();
    const auto at = std::find(devices.begin(), devices.end(), device);
    if (at != devices.end()) return {static_cast<int>(m), static_cast<int>(at - devices.begin())};
  }
  bug("partitioned program: no mesh has device {}", device);
}

std::vector<int> devices_of(const SpmdProgram& program) {
  std::vector<int> devices;
  for (const DeviceMesh& mesh : program.meshes)
    devices.insert(devices.end(), mesh.devices().begin(), mesh.devices().end());
  return devices;
}

SpmdProgram with_nodes(const SpmdProgram& program, std::vector<Node> nodes) {
  SpmdProgram result;
  result.meshes = program.meshes;
  Graph& graph = result.graph;
  graph.num_micro_batches = program.graph.num_micro_batches;
  std::vector<int> number(program.graph.values.size(), -1);
  const auto renumber = [&](int& value) {
    invariant(number.at(value) >= 0, "rewriting a program: value {} is read but not defined", value);
    value = number[value];
  };
  for (Node& node : nodes) {
    for (int& value : node.operands) renumber(value);
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i) {
      const int old = node.results[i];
      node.results[i] = number.at(old) = static_cast<int>(graph.values.size());
      graph.values.push_back({program.graph.type(old), static_cast<int>(graph.nodes.size()), i});
      result.specs.push_back(program.specs[old]);
      if (!program.mesh_of_value.empty()) result.mesh_of_value.push_back(program.mesh_of_value[old]);
    }
    graph.nodes.push_back(std::move(node));
  }
  graph.inputs = program.graph.inputs;
  graph.updates = program.graph.updates;
  graph.metrics = program.graph.metrics;
  for (Input& input : graph.inputs) renumber(input.value);
  for (Update& update : graph.updates) renumber(update.input), renumber(update.value);
  for (Metric& metric : graph.metrics) renumber(metric.value);
  return result;
}

Combiner combiner_on(const ShardingSpec& spec, int axis) {
  const AxisPlacement& placement = spec.axes.at(axis);
  invariant(placement.kind == AxisPlacement::Kind::partial, "spec {} is not partial over mesh axis {}",
            to_string(spec), axis);
  return placement.combiner;
}

std::int64_t payload_bytes(const SpmdProgram& program, const Node& node) {
  std::int64_t bytes = 0;
  for (int value : collective_kind(node) == CollectiveKind::all_gather ? node.results : node.operands)
    bytes += shard_bytes(program.graph.type(value), program.specs[value], program.mesh_of(value));
  return bytes;
}

}  // namespace alpa
