#pragma once
/// Devices whose threads never came back from a step.
#include <memory>

#include "src/runtime/devices.h"

namespace alpa::runtime {

/// Never destroys what lost threads may still use. Thread-safe.
void keep_forever(std::unique_ptr<Devices> devices, std::shared_ptr<DeviceMemory> memory);

}  // namespace alpa::runtime
