#pragma once
/// The place of state in the arenas of devices, so that several programs can work on one state.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::lower {

using Packing = std::vector<std::int64_t>;

/// The place of one state tensor in its device's arena.
struct StatePlace {
  std::int64_t arena_offset = 0, bytes = 0;
  auto operator<=>(const StatePlace&) const = default;
};

/// By device and name, the state of the program that came first.
struct StateLayout {
  std::map<int, std::map<std::string, StatePlace>> of_device;
  /// By device, the places of all buffers of the program that is followed: for fewer rows, they are
  /// a packing in which the same program needs no more memory.
  std::map<int, Packing> packing = {};
};

/// Offsets of a device's buffers in its arena, by number.
Packing packing_of(const DeviceProgram& device);

/// The state of one device, whose memory is planned.
std::map<std::string, StatePlace> state_places(const DeviceProgram& device,
                                               const spmd::SpmdProgram& program);

/// Before `plan_memory`: gives the state of `device` its place in `layout`. Also keeps
/// the state there that this program lacks. Throws Bug if a tensor of this program has
/// another size there, or none. State without a content of its own (`is_unset`) may have none
/// there: `plan_memory` places it behind the others.
void place_state(DeviceProgram& device, const spmd::SpmdProgram& program,
                 const StateLayout& layout);

}  // namespace alpa::lower
