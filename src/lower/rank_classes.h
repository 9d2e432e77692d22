#pragma once
/// Classes of devices with equal programs.
#include <vector>

#include "src/lower/messages.h"
#include "src/lower/state_layout.h"

namespace alpa::lower {

/// Classes of devices of one mesh, or of meshes with the same devices. Programs (`emit`) within a
/// class differ only in peers and in offsets into whole tensors, so they need the same memory: all
/// parts of values have equal shapes, and so have the boxes that are sent and received, one by one.
/// Devices are in mesh order, classes in the order of their first devices. Evenly split programs
/// have one class per mesh, others about two per axis. Devices of a class also have the same places
/// of `state`, if it is given. `messages`: of `program`.
std::vector<std::vector<int>> device_classes(const spmd::SpmdProgram& program,
                                             const Messages& messages,
                                             const StateLayout* state = nullptr);
std::vector<std::vector<int>> device_classes(const spmd::SpmdProgram& program,
                                             const StateLayout* state = nullptr);

/// The programs of all devices, in the order of `devices_of`, from those of the first device of
/// every class, in the order of `device_classes`. Memory plans are the same within a class.
std::vector<DeviceProgram> programs_of_all(const spmd::SpmdProgram& program,
                                           std::vector<DeviceProgram> firsts,
                                           const StateLayout* state = nullptr);

}  // namespace alpa::lower
