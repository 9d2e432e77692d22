#pragma once
/// Which parts of a step's tensors the devices of this process hold.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
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

/// A part of a state tensor, wherever it is held: one of the boxes that make up the tensor.
struct StateBox {
  std::string name;                               ///< of the tensor
  TensorType type;                                ///< of the box
  Shape begin;                                    ///< its first element in the whole tensor
  std::int64_t offset = 0;                        ///< of its bytes in a snapshot
  std::vector<std::pair<int, int>> holders = {};  ///< devices of this process, and their buffers
};

/// The distinct boxes of all tensors of a directory, each once. In a snapshot they lie one behind
/// the other in this order, larger elements first, so that each is aligned to its elements.
std::vector<StateBox> boxes_of(const Directory& directory, const Devices& devices);

/// Bytes of a snapshot of these boxes.
std::int64_t snapshot_bytes(const std::vector<StateBox>& boxes);

/// Copies boxes from devices into a snapshot, or from there to every device that holds them.
void read_boxes(const std::vector<StateBox>& boxes, Devices& devices, const DeviceMemory& memory,
                std::byte* snapshot);
void write_boxes(const std::vector<StateBox>& boxes, Devices& devices, DeviceMemory& memory,
                 const std::byte* snapshot);

}  // namespace alpa::runtime
