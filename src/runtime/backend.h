#pragma once
/// The devices of a backend: CPU threads, and GPUs through libalpa_cuda.so.
#include <memory>
#include <string_view>

#include "src/runtime/devices.h"

namespace alpa::runtime {

/// Throws Error, with reason and remedy, if this machine has fewer than `devices` devices of the
/// backend, or naming the backends if there is none of this name.
void require_devices(std::string_view backend, int devices);

/// The devices that `request` asks for. Throws Error as `require_devices` does, or if a device
/// cannot be made.
std::unique_ptr<Devices> make_devices(std::string_view backend, DevicesRequest request);

}  // namespace alpa::runtime
