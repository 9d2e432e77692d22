// src/lower/rank_classes.cc — groups devices whose parts of all values have equal shapes
#include "src/lower/rank_classes.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "alpa/base/error.h"
#include "src/ir/op_def.h"

namespace alpa::lower {
namespace {

struct Layout {
  const Shape* shape;
  const ShardingSpec* spec;
  int mesh;
};

/// Layouts of all values, each distinct one once: repeated layers have few.
struct Layouts {
  std::vector<Layout> distinct;
  std::vector<int> of_value;
};

Layouts layouts_of(const spmd::SpmdProgram& program) {
  std::unordered_map<ShardingSpec, std::map<std::pair<int, Shape>, int>> known;
  Layouts layouts;
  for (std::size_t v = 0; v < program.specs.size(); ++v) {
    const Shape& shape = program.graph.values[v].type.shape;
    const int mesh = program.mesh_index(static_cast<int>(v)),
              next = static_cast<int>(layouts.distinct.size());
    const auto [place, added] = known[program.specs[v]].try_emplace({mesh, shape}, next);
    if (added) layouts.distinct.push_back({&shape, &program.specs[v], mesh});
    layouts.of_value.push_back(place->second);
  }
  return layouts;
}

/// Facts by which the devices of a group of meshes are compared. One entry per group.
struct GroupFacts {
  std::vector<int> meshes;
  std::vector<const Layout*> layouts;
  /// Mesh and axis: the first device along it keeps a value where the others make zeros.
  std::set<std::pair<int, int>> to_partial;
  std::vector<int> transfers;  ///< nodes
};

std::vector<GroupFacts> facts_of_groups(const spmd::SpmdProgram& program, const Layouts& layouts) {
  std::vector<GroupFacts> groups;
  std::vector<int> group_of(program.meshes.size());
  for (std::vector<int>& meshes : spmd::mesh_groups(program)) {
    for (int mesh : meshes) group_of[mesh] = static_cast<int>(groups.size());
    groups.push_back({std::move(meshes), {}, {}, {}});
  }
  for (const Layout& layout : layouts.distinct)
    groups[group_of[layout.mesh]].layouts.push_back(&layout);
  for (int n = 0; n < static_cast<int>(program.graph.nodes.size()); ++n) {
    const Node& node = program.graph.nodes[n];
    const int mesh = program.mesh_index(node.results[0]);
    if (spmd::is_to_partial(node))
      groups[group_of[mesh]].to_partial.emplace(
          mesh, static_cast<int>(node.attributes.integers("axes")[0]));
    if (!spmd::is_transfer(node)) continue;
    const int from = group_of[program.mesh_index(node.operands[0])];
    groups[group_of[mesh]].transfers.push_back(n);
    if (from != group_of[mesh]) groups[from].transfers.push_back(n);
  }
  return groups;
}

/// Devices exchange boxes of the same shapes, and wait for the same ones before they pass others
/// on, if they add the same to their keys.
void add_messages(const DeviceMessages& own, std::vector<std::int64_t>& key) {
  for (const auto* messages : {&own.sends, &own.receives, &own.passed_on}) {
    key.push_back(static_cast<std::int64_t>(messages->size()));
    for (const Message& message : *messages)
      key.insert(key.end(), message.extent.begin(), message.extent.end());
  }
  for (const Message& received : own.receives) {
    const auto meets = [&](const Message& sent) { return boxes_meet(received, sent); };
    key.push_back(std::find_if(own.passed_on.begin(), own.passed_on.end(), meets) -
                  own.passed_on.begin());
  }
}

/// Devices agree in the places of state if they add the same to their keys.
void add_places(const StateLayout& state, int device, std::vector<std::int64_t>& key) {
  const auto places = state.of_device.find(device);
  if (places == state.of_device.end()) return;
  for (const auto& [name, place] : places->second)
    key.insert(key.end(), {place.arena_offset, place.bytes});
}

using Key = std::vector<std::int64_t>;

Key key_of(const spmd::SpmdProgram& program, const GroupFacts& group, int rank,
           const Messages& messages) {
  Key key;
  std::map<int, std::vector<int>> at;  // coordinates, by mesh
  for (int mesh : group.meshes) at[mesh] = program.meshes[mesh].coordinates(rank);
  for (const auto& [mesh, axis] : group.to_partial) key.push_back(at[mesh][axis] == 0);
  for (const Layout* layout : group.layouts) {
    const Shape part =
        local_shape(*layout->shape, *layout->spec, program.meshes[layout->mesh], at[layout->mesh]);
    key.insert(key.end(), part.begin(), part.end());
  }
  const int device = program.meshes[group.meshes.front()].devices()[rank];
  for (int transfer : group.transfers) add_messages(messages.of(transfer, device), key);
  return key;
}

/// Makes programs of devices from that of another of their class.
class Relocation {
 public:
  Relocation(const spmd::SpmdProgram& program, const Messages& messages)
      : program_(program), messages_(messages), layouts_(layouts_of(program)) {}

  DeviceProgram run(DeviceProgram device, int id) {
    device.device = id;
    device.rank = spmd::place_of(program_, id).rank;
    move_buffers(device);
    groups_.clear();
    moved_.clear();
    for (InstructionList& list : device.lists)
      for (Instruction& instruction : list.instructions) move(instruction, device);
    return device;
  }

 private:
  void move_buffers(DeviceProgram& device) {
    std::vector<Shape> offsets;
    for (const Layout& layout : layouts_.distinct) {
      const DeviceMesh& mesh = program_.meshes[layout.mesh];
      offsets.push_back(
          program_.same_devices(layout.mesh, device.mesh)
              ? local_offset(*layout.shape, *layout.spec, mesh, mesh.coordinates(device.rank))
              : Shape{});
    }
    of_value_.assign(device.buffers.size(), false);
    for (std::size_t v = 0; v < device.buffer_of_value.size(); ++v) {
      const int buffer = device.buffer_of_value[v];
      if (buffer < 0) continue;
      device.buffers[buffer].offset = offsets[layouts_.of_value[v]];
      of_value_[buffer] = true;
    }
  }

  void move(Instruction& instruction, DeviceProgram& device) {
    using Kind = Instruction::Kind;
    if (instruction.kind == Kind::collective || instruction.kind == Kind::start)
      instruction.call.group = group_of(instruction, device);
    if (instruction.kind == Kind::send || instruction.kind == Kind::receive)
      instruction.message = message_of(instruction, device.device);
    // A buffer in which an update saves content has the layout of its source.
    if (instruction.kind == Kind::copy && !of_value_[instruction.outputs[0]])
      device.buffers[instruction.outputs[0]].offset = device.buffers[instruction.inputs[0]].offset;
  }

  const std::vector<int>& group_of(const Instruction& instruction, const DeviceProgram& device) {
    const Node& node = program_.graph.nodes[instruction.node];
    const auto& axes = node.attributes.integers("axes");
    std::vector<int>& group = groups_[{program_.mesh_index(node.results[0]), axes}];
    if (group.empty()) group = spmd::group_of(program_, node, device.rank);
    return group;
  }

  /// The message in the place of this one: lists keep those of one transfer in order.
  const Message& message_of(const Instruction& instruction, int device) {
    const bool passed_on = instruction.message.passed_on;
    std::size_t& next = moved_[{instruction.node, instruction.kind, passed_on}];
    return messages_.of(instruction.node, device).of(instruction.kind, passed_on).at(next++);
  }

  const spmd::SpmdProgram& program_;
  const Messages& messages_;
  const Layouts layouts_;
  // State of the device whose program is made:
  std::vector<bool> of_value_;  ///< per buffer
  std::map<std::pair<int, std::vector<std::int64_t>>, std::vector<int>>
      groups_;  ///< by mesh and axes
  /// Messages so far, by node, kind, and whether they are passed on.
  std::map<std::tuple<int, Instruction::Kind, bool>, std::size_t> moved_;
};

std::vector<DeviceProgram> programs_of_all(const spmd::SpmdProgram& program,
                                           std::vector<DeviceProgram> firsts,
                                           const std::vector<std::vector<int>>& classes,
                                           const Messages& messages) {
  invariant(firsts.size() == classes.size(), "{} device programs for {} classes of devices",
            firsts.size(), classes.size());
  std::map<int, DeviceProgram> by_device;
  Relocation relocation(program, messages);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    invariant(firsts[c].device == classes[c].front(),
              "found the program of device {}, expected that of {}", firsts[c].device,
              classes[c].front());
    for (std::size_t i = 1; i < classes[c].size(); ++i)
      by_device.emplace(classes[c][i], relocation.run(firsts[c], classes[c][i]));
    by_device.emplace(classes[c].front(), std::move(firsts[c]));
  }
  std::vector<DeviceProgram> programs;
  for (int device : spmd::devices_of(program)) programs.push_back(std::move(by_device.at(device)));
  return programs;
}

}  // namespace

std::vector<std::vector<int>> device_classes(const spmd::SpmdProgram& program,
                                             const Messages& messages, const StateLayout* state) {
  std::vector<std::vector<int>> classes;
  const Layouts layouts = layouts_of(program);
  for (const GroupFacts& group : facts_of_groups(program, layouts)) {
    const std::vector<int>& devices = program.meshes[group.meshes.front()].devices();
    std::map<Key, std::size_t> known;
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      Key key = key_of(program, group, static_cast<int>(rank), messages);
      if (state) add_places(*state, devices[rank], key);
      const auto [place, added] = known.try_emplace(std::move(key), classes.size());
      if (added) classes.emplace_back();
      classes[place->second].push_back(devices[rank]);
    }
  }
  return classes;
}

std::vector<std::vector<int>> device_classes(const spmd::SpmdProgram& program,
                                             const StateLayout* state) {
  return device_classes(program, Messages(program), state);
}

std::vector<DeviceProgram> programs_of_all(const spmd::SpmdProgram& program,
                                           std::vector<DeviceProgram> firsts,
                                           const StateLayout* state) {
  const Messages messages(program);
  return programs_of_all(program, std::move(firsts), device_classes(program, messages, state),
                         messages);
}

}  // namespace alpa::lower
