#pragma once
/// Times of instructions on the devices of all processes.
#include <vector>

#include "src/processes/world.h"
#include "src/runtime/held_parts.h"
#include "src/runtime/step_times.h"

namespace alpa::runtime {

/// Times of all devices, in the order of `programs`; instructions are those of `programs`.
/// Collective. `here`: the devices of this process, which `devices` has. The clocks of hosts are
/// aligned so that their first instructions begin together.
std::vector<DeviceTimes> times_of_all(const Devices& devices, DevicesHere here,
                                      const Programs& programs, processes::World& world);

}  // namespace alpa::runtime
