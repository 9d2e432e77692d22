#pragma once
/// The memory of stages, from the programs of their devices.
#include <cstdint>
#include <vector>

#include "alpa/inter_op/plan.h"
#include "src/lower/device_program.h"

namespace alpa {

/// Notes in `stages` what their devices hold: of each stage, the device that holds most. `limit`:
/// bytes that a device may use.
void set_memory(std::vector<StagePlan>& stages, const std::vector<lower::DeviceProgram>& devices,
                std::int64_t limit);

}  // namespace alpa
