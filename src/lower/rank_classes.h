#pragma once
/// Classes of devices with equal programs.
#include <vector>

#include "alpa/lower/device_program.h"

namespace alpa {

/// Classes of devices of one mesh. Programs (`emit`) within a class differ only in peers and in
/// offsets into whole tensors, so they need the same memory. Devices are in mesh order, classes in
/// the order of their first devices. Evenly split programs have one class per mesh, others about
/// two per axis. In programs over several meshes each device is a class.
std::vector<std::vector<int>> device_classes(const SpmdProgram& program);

/// The programs of all devices, in the order of `devices_of`, from those of the first device of
/// every class, in the order of `device_classes`. Memory plans are the same within a class.
std::vector<DeviceProgram> programs_of_all(const SpmdProgram& program,
                                           std::vector<DeviceProgram> firsts);

}  // namespace alpa
