#pragma once
/// A step as all processes of a launch see it: its metrics, times and traffic.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/processes/world.h"
#include "src/runtime/background.h"
#include "src/runtime/devices.h"
#include "src/runtime/held_parts.h"
#include "src/runtime/step_times.h"

namespace alpa::runtime {

/// Every metric, by number, from the process of the first device that reports it: decisions that
/// programs take by it agree. Collective; the world of `placement`.
/// With them goes rank 0's view of what is in the background.
void share_metrics(std::vector<double>& values, const Programs& programs,
                   const Placement& placement,
                   const std::vector<std::shared_ptr<Background>>& background);

/// Throws Error naming a metric of this step that is not finite.
void check_finite(const std::map<std::string, double>& values, std::int64_t step);

/// Times of all devices, in the order of `programs`; instructions are those of `programs`.
/// Collective. `here`: the devices of this process, which `devices` has. The clocks of hosts are
/// aligned so that their first instructions begin together.
std::vector<DeviceTimes> times_of_all(const Devices& devices, DevicesHere here,
                                      const Programs& programs, processes::World& world);

/// Collective calls of the last step by kind, and the bytes sent by the formulas of `traffic`, of
/// the busiest device of all processes; of this one, `num_devices` are counted.
std::map<std::string, Traffic> measured_traffic(const Devices& devices, int num_devices,
                                                processes::World* world);

}  // namespace alpa::runtime
