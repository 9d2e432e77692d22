// src/lower/rank_classes.cc — groups devices whose parts of all values have equal shapes
#include "src/lower/rank_classes.h"

#include <algorithm>
#include <map>
#include <set>
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

/// Those of all values, each once: repeated layers have few.
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

/// Axes along which the first device keeps a value where the others make zeros.
std::set<int> axes_to_partial(const Graph& graph) {
  std::set<int> axes;
  for (const Node& node : graph.nodes)
    if (node.op->reshard == CollectiveKind::to_partial)
      axes.insert(static_cast<int>(node.attributes.integers("axes")[0]));
  return axes;
}

/// Devices agree in the places of state if they add the same to their keys.
void add_places(const StateLayout& state, int device, std::vector<std::int64_t>& key) {
  const auto places = state.of_device.find(device);
  if (places == state.of_device.end()) return;
  for (const auto& [name, place] : places->second)
    key.insert(key.end(), {place.arena_offset, place.bytes});
}

/// Makes programs of devices from that of another of their class.
class Relocation {
 public:
  explicit Relocation(const spmd::SpmdProgram& program)
      : program_(program), layouts_(layouts_of(program)) {}

  DeviceProgram run(DeviceProgram device, int id) {
    const DeviceMesh& mesh = program_.meshes[device.mesh];
    device.device = id;
    device.rank = spmd::place_of(program_, id).rank;
    move_buffers(device, mesh.coordinates(device.rank));
    groups_.clear();
    for (InstructionList& list : device.lists)
      for (Instruction& instruction : list.instructions) move(instruction, device);
    return device;
  }

 private:
  void move_buffers(DeviceProgram& device, const std::vector<int>& at) {
    std::vector<Shape> offsets;
    for (const Layout& layout : layouts_.distinct)
      offsets.push_back(layout.mesh == device.mesh ? local_offset(*layout.shape, *layout.spec,
                                                                  program_.meshes[layout.mesh], at)
                                                   : Shape{});
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
    // A buffer in which an update saves content has the layout of its source.
    if (instruction.kind == Kind::copy && !of_value_[instruction.outputs[0]])
      device.buffers[instruction.outputs[0]].offset = device.buffers[instruction.inputs[0]].offset;
  }

  const std::vector<int>& group_of(const Instruction& instruction, const DeviceProgram& device) {
    const auto& axes = program_.graph.nodes[instruction.node].attributes.integers("axes");
    std::vector<int>& group = groups_[axes];
    if (!group.empty()) return group;
    const DeviceMesh& mesh = program_.meshes[device.mesh];
    group = mesh.group(device.rank, {axes.begin(), axes.end()});
    for (int& member : group) member = mesh.devices()[member];
    return group;
  }

  const spmd::SpmdProgram& program_;
  const Layouts layouts_;
  std::vector<bool> of_value_;                                    ///< per buffer of the device
  std::map<std::vector<std::int64_t>, std::vector<int>> groups_;  ///< of the device, by axes
};

}  // namespace

std::vector<std::vector<int>> device_classes(const spmd::SpmdProgram& program,
                                             const StateLayout* state) {
  std::vector<std::vector<int>> classes;
  if (program.meshes.size() > 1) {
    for (int device : spmd::devices_of(program)) classes.push_back({device});
    return classes;
  }
  const DeviceMesh& mesh = program.meshes.front();
  const Layouts layouts = layouts_of(program);
  const std::set<int> first_matters = axes_to_partial(program.graph);
  std::map<std::vector<std::int64_t>, std::size_t> known;
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    const std::vector<int> at = mesh.coordinates(rank);
    std::vector<std::int64_t> key;
    for (int axis : first_matters) key.push_back(at[axis] == 0);
    for (const Layout& layout : layouts.distinct) {
      const Shape part = local_shape(*layout.shape, *layout.spec, mesh, at);
      key.insert(key.end(), part.begin(), part.end());
    }
    if (state) add_places(*state, mesh.devices()[rank], key);
    const auto [place, added] = known.try_emplace(std::move(key), classes.size());
    if (added) classes.emplace_back();
    classes[place->second].push_back(mesh.devices()[rank]);
  }
  return classes;
}

std::vector<DeviceProgram> programs_of_all(const spmd::SpmdProgram& program,
                                           std::vector<DeviceProgram> firsts,
                                           const StateLayout* state) {
  const std::vector<std::vector<int>> classes = device_classes(program, state);
  invariant(firsts.size() == classes.size(), "{} device programs for {} classes of devices",
            firsts.size(), classes.size());
  std::map<int, DeviceProgram> by_device;
  Relocation relocation(program);
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

}  // namespace alpa::lower
