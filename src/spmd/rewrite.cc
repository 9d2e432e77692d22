// src/spmd/rewrite.cc — facts and renumbering shared by passes over partitioned programs
#include "rewrite.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/rewrite.h"

namespace alpa::spmd {

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
  for (const std::vector<int>& group : mesh_groups(program)) {
    const std::vector<int>& own = program.meshes[group.front()].devices();
    devices.insert(devices.end(), own.begin(), own.end());
  }
  return devices;
}

std::vector<std::vector<int>> mesh_groups(const SpmdProgram& program) {
  std::vector<std::vector<int>> groups;
  for (int mesh = 0; mesh < static_cast<int>(program.meshes.size()); ++mesh) {
    const auto group = std::find_if(
        groups.begin(), groups.end(),
        [&](const std::vector<int>& known) { return program.same_devices(known.front(), mesh); });
    if (group == groups.end())
      groups.push_back({mesh});
    else
      group->push_back(mesh);
  }
  return groups;
}

std::vector<int> group_of(const SpmdProgram& program, const Node& node, int rank) {
  const DeviceMesh& mesh = program.mesh_of(node);
  const std::vector<std::int64_t>& axes = node.attributes.integers("axes");
  std::vector<int> group = mesh.group(rank, {axes.begin(), axes.end()});
  for (int& member : group) member = mesh.devices()[member];
  return group;
}

SpmdProgram with_nodes(const SpmdProgram& program, std::vector<Node> nodes) {
  Rewritten rewritten = with_nodes(program.graph, std::move(nodes));
  SpmdProgram result{program.meshes, std::move(rewritten.graph), {}, {}, program.fixed_sums};
  for (int value : rewritten.values) {
    result.specs.push_back(program.specs[value]);
    if (!program.mesh_of_value.empty())
      result.mesh_of_value.push_back(program.mesh_of_value[value]);
  }
  return result;
}

std::vector<Node> with_inputs_first(const Graph& graph, const std::vector<Node>& nodes) {
  std::vector<Node> result;
  std::size_t inputs = 0;
  const auto add_inputs_to = [&](int n) {
    for (; inputs < graph.inputs.size(); ++inputs) {
      const int producer = graph.values[graph.inputs[inputs].value].producer;
      if (producer > n) return;
      result.push_back(graph.nodes[producer]);
    }
  };
  const auto add_input = [&](int value) {
    if (graph.producer(value).op == &ops::input) add_inputs_to(graph.values[value].producer);
  };
  for (const Node& node : nodes) {
    for (int value : node.operands) add_input(value);
    if (node.op == &ops::input)
      add_input(node.results[0]);
    else
      result.push_back(node);
  }
  return result;
}

std::int64_t payload_bytes(const SpmdProgram& program, const Node& node) {
  std::int64_t bytes = 0;
  for (int value : gathers(*node.op->reshard) ? node.results : node.operands)
    bytes += shard_bytes(program.graph.type(value), program.specs[value], program.mesh_of(value));
  return bytes;
}

}  // namespace alpa::spmd
