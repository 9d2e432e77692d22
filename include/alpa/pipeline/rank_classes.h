#pragma once
/// Devices that run alike.
#include <vector>

#include "alpa/spmd/program.h"

namespace alpa {

/// The first device of every class of devices of one mesh whose instruction lists (`emit`) differ in peers
/// and in offsets into whole tensors alone: they need the same memory. The first device of a mesh comes
/// first. Evenly split programs have one class per mesh, others about two per axis.
std::vector<int> first_devices_of_classes(const SpmdProgram& program);

}  // namespace alpa
