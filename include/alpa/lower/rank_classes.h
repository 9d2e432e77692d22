#pragma once
/// Devices that run alike.
#include <vector>

#include "alpa/lower/device_program.h"

namespace alpa {

/// Classes of devices of one mesh whose programs (`emit`) differ in peers and in offsets into whole tensors
/// alone: they need the same memory. Devices stand in the order of their mesh, classes in that of their
/// first devices. Evenly split programs have one class per mesh, others about two per axis; of programs
/// over several meshes each device is a class.
std::vector<std::vector<int>> device_classes(const SpmdProgram& program);

/// The programs of all devices, in the order of `devices_of`, given that of the first device of every
/// class, in the order of `device_classes`. Memory is planned alike.
std::vector<DeviceProgram> programs_of_all(const SpmdProgram& program, std::vector<DeviceProgram> firsts);

}  // namespace alpa
