// src/runtime/held_parts.cc — finds, reads and writes the parts of tensors that devices hold
#include "held_parts.h"

#include <algorithm>

namespace alpa::runtime {

std::vector<HeldPart> parts_of(int value, const Devices& devices, int num_devices) {
  std::vector<HeldPart> parts;
  for (int d = 0; d < num_devices; ++d) {
    const int held = devices.program(d).buffer_of_value[value];
    if (held < 0) continue;
    const lower::Buffer& buffer = devices.program(d).buffers[held];
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const HeldPart& part) {
      const lower::Buffer& other = devices.program(part.device).buffers[part.buffer];
      return other.offset == buffer.offset && other.type == buffer.type;
    });
    parts.push_back({d, held, same != parts.end() ? same->owner : d});
  }
  return parts;
}

std::vector<StateBox> boxes_of(const Directory& directory, const Devices& devices) {
  std::vector<StateBox> boxes;
  for (const auto& [name, parts] : directory)
    for (const HeldPart& part : parts) {
      if (part.owner != part.device) continue;
      const lower::Buffer& buffer = devices.program(part.device).buffers[part.buffer];
      if (buffer.type.bytes() == 0) continue;
      boxes.push_back({name, buffer.type, buffer.offset});
      for (const HeldPart& same : parts)
        if (same.owner == part.owner) boxes.back().holders.emplace_back(same.device, same.buffer);
    }
  std::stable_sort(boxes.begin(), boxes.end(), [](const StateBox& a, const StateBox& b) {
    return size_of(a.type.dtype) > size_of(b.type.dtype);
  });
  std::int64_t end = 0;
  for (StateBox& box : boxes) box.offset = std::exchange(end, end + box.type.bytes());
  return boxes;
}

std::int64_t snapshot_bytes(const std::vector<StateBox>& boxes) {
  return boxes.empty() ? 0 : boxes.back().offset + boxes.back().type.bytes();
}

void read_boxes(const std::vector<StateBox>& boxes, Devices& devices, const DeviceMemory& memory,
                std::byte* snapshot) {
  for (const StateBox& box : boxes) {
    const auto& [device, buffer] = box.holders.front();
    devices.read(memory, device, buffer, 0, snapshot + box.offset);
  }
}

void write_boxes(const std::vector<StateBox>& boxes, Devices& devices, DeviceMemory& memory,
                 const std::byte* snapshot) {
  for (const StateBox& box : boxes)
    for (const auto& [device, buffer] : box.holders)
      devices.write(memory, device, buffer, snapshot + box.offset);
}

}  // namespace alpa::runtime
