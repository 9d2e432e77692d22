#pragma once
/// Which parts of a step's tensors the devices of this process hold.
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "src/runtime/devices.h"

namespace alpa::runtime {

/// A part of a state input or an output that a device of this process holds.
struct HeldPart {
  int device = 0, buffer = -1;
  int owner = 0;  ///< the first device that holds the same part
};

/// Parts of each state, or output, by name, one per device.
using Directory = std::map<std::string, std::vector<HeldPart>>;

/// The parts of a value that the first `num_devices` devices hold.
std::vector<HeldPart> parts_of(int value, const Devices& devices, int num_devices);

/// Content of all parts of a directory in host memory, in order.
using SavedParts = std::vector<std::vector<std::byte>>;

SavedParts saved_parts(Devices& devices, const DeviceMemory& memory, const Directory& directory);
/// Writes them to other memory of the same devices.
void restore_parts(const SavedParts& saved, Devices& devices, DeviceMemory& memory,
                   const Directory& directory);

}  // namespace alpa::runtime
