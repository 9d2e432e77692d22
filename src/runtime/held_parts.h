#pragma once
/// Parts of a step's tensors that devices hold, devices of other processes included.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alpa/tensor/array.h"
#include "src/runtime/devices.h"
#include "src/tensor/kernel.h"

namespace alpa::runtime {

/// The programs of all devices, in their order.
using Programs = std::vector<const lower::DeviceProgram*>;

/// A part of a state input or an output that a device holds.
struct HeldPart {
  int device = 0;  ///< index among all devices
  int buffer = -1;
  int owner = 0;  ///< the first device that holds the same part
};

/// Parts of each state, or output, by name, one per device.
using Directory = std::map<std::string, std::vector<HeldPart>>;

/// The parts of a value that devices hold.
std::vector<HeldPart> parts_of(int value, const Programs& programs);

/// A part of a state tensor, wherever it is held: one of the boxes that make up the tensor.
struct StateBox {
  std::string name;         ///< of the tensor
  TensorType type;          ///< of the box
  Shape begin;              ///< its first element in the whole tensor
  std::int64_t offset = 0;  ///< of its bytes in a snapshot
  /// devices of this process, by their index in it, and their buffers; may be none
  std::vector<std::pair<int, int>> holders = {};
  std::vector<int> ranks = {};  ///< of the processes that hold it, ascending
};

/// A part of a tensor in host memory: `host`, which is resized.
KernelTensor part_in(std::vector<std::byte>& host, const HeldPart& part, const Programs& programs);

/// The devices of this process among all: consecutive ones.
struct DevicesHere {
  int first = 0, count = 0;
  bool has(int device) const { return device >= first && device < first + count; }
};
DevicesHere devices_here(const Programs& programs, const Placement& placement);

/// Copies a whole tensor to its parts on devices of this process.
void write_parts(const Array& whole, const std::vector<HeldPart>& parts, const Programs& programs,
                 DevicesHere here, Devices& devices, DeviceMemory& memory);

/// The distinct boxes of all tensors of a directory, each once. In a snapshot they lie one behind
/// the other in this order, larger elements first, so that each is aligned to its elements.
std::vector<StateBox> boxes_of(const Directory& directory, const Programs& programs,
                               const Placement& placement);
/// The boxes of `boxes` that devices of this process hold, with places in a snapshot of their own.
std::vector<StateBox> held_here(std::vector<StateBox> boxes);

/// Throws Error naming the first part that devices of all processes hold with different bits, after
/// so many steps. Collective.
void check_replicas(const Directory& directory, const Programs& programs,
                    const Placement& placement, Devices& devices, const DeviceMemory& memory,
                    std::int64_t steps);

/// Bytes of a snapshot of these boxes.
std::int64_t snapshot_bytes(const std::vector<StateBox>& boxes);

/// Copies boxes from devices into a snapshot, or from there to every device that holds them.
void read_boxes(const std::vector<StateBox>& boxes, Devices& devices, const DeviceMemory& memory,
                std::byte* snapshot);
void write_boxes(const std::vector<StateBox>& boxes, Devices& devices, DeviceMemory& memory,
                 const std::byte* snapshot);

}  // namespace alpa::runtime
