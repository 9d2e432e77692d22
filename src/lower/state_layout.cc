// src/lower/state_layout.cc — reads and prescribes the place of state in arenas
#include "state_layout.h"

#include "alpa/base/error.h"
#include "src/ir/input.h"

namespace alpa::lower {

std::map<std::string, StatePlace> state_places(const DeviceProgram& device,
                                               const spmd::SpmdProgram& program) {
  std::map<std::string, StatePlace> places;
  for (const Input& input : program.graph.inputs) {
    const int buffer = device.buffer_of_value[input.value];
    if (input.kind == InputKind::state && buffer >= 0)
      places[input.name] = {device.buffers[buffer].arena_offset,
                            device.buffers[buffer].type.bytes()};
  }
  return places;
}

Packing packing_of(const DeviceProgram& device) {
  Packing packing;
  for (const Buffer& buffer : device.buffers) packing.push_back(buffer.arena_offset);
  return packing;
}

void place_state(DeviceProgram& device, const spmd::SpmdProgram& program,
                 const StateLayout& layout) {
  const auto found = layout.of_device.find(device.device);
  std::map<std::string, StatePlace> others =
      found == layout.of_device.end() ? std::map<std::string, StatePlace>() : found->second;
  for (const Input& input : program.graph.inputs) {
    const int buffer = device.buffer_of_value[input.value];
    if (input.kind != InputKind::state || buffer < 0) continue;
    const auto place = others.find(input.name);
    if (place == others.end() && is_unset(program.graph, input)) continue;
    invariant(place != others.end() && place->second.bytes == device.buffers[buffer].type.bytes(),
              "device {}: state \"{}\" of {} bytes has no such place in the state it shares",
              device.device, input.name, device.buffers[buffer].type.bytes());
    device.buffers[buffer].arena_offset = place->second.arena_offset;
    others.erase(place);
  }
  for (const auto& [name, place] : others) {
    if (place.bytes == 0) continue;
    device.kept.push_back(static_cast<int>(device.buffers.size()));
    device.buffers.push_back({{u8, {place.bytes}}, {0}, {place.bytes}});
    device.buffers.back().arena_offset = place.arena_offset;
  }
}

}  // namespace alpa::lower
