#pragma once
/// From a backend's name to its devices.
#include <string>

#include "alpa/runtime/devices.h"

namespace alpa {

/// Throws Error if the backend is unknown, or has no devices here: why, and how to mend it.
std::unique_ptr<Devices> make_devices(const std::string& backend, DevicesRequest request);

}  // namespace alpa
