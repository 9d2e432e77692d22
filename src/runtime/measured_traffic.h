#pragma once
/// Traffic between devices in the last step, as measured.
#include <map>
#include <string>

#include "src/processes/world.h"
#include "src/runtime/devices.h"

namespace alpa::runtime {

/// Collective calls of the last step by kind, and the bytes sent by the formulas of `traffic`, of
/// the busiest device of all processes; of this one, `num_devices` are counted.
std::map<std::string, Traffic> measured_traffic(const Devices& devices, int num_devices,
                                                processes::World* world);

}  // namespace alpa::runtime
