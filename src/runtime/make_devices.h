#pragma once
/// From a backend's name to its devices.
#include <string>

#include "alpa/runtime/devices.h"

namespace alpa {

/// Throws Error if the backend is unknown, or has not so many devices here: why, and how to mend it.
void require_devices(const std::string& backend, int devices);

/// Throws Error like `require_devices`, and if a device can't be made.
std::unique_ptr<Devices> make_devices(const std::string& backend, DevicesRequest request);

}  // namespace alpa
