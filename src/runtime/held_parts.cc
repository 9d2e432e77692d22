// src/runtime/held_parts.cc — finds, saves and restores the parts of tensors that devices hold
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

SavedParts saved_parts(Devices& devices, const DeviceMemory& memory, const Directory& directory) {
  SavedParts saved;
  for (const auto& [name, parts] : directory)
    for (const HeldPart& part : parts) {
      const std::int64_t bytes = devices.program(part.device).buffers[part.buffer].type.bytes();
      saved.emplace_back(static_cast<std::size_t>(bytes));
      devices.read(memory, part.device, part.buffer, 0, saved.back().data());
    }
  return saved;
}

void restore_parts(const SavedParts& saved, Devices& devices, DeviceMemory& memory,
                   const Directory& directory) {
  auto next = saved.begin();
  for (const auto& [name, parts] : directory)
    for (const HeldPart& part : parts)
      devices.write(memory, part.device, part.buffer, (next++)->data());
}

}  // namespace alpa::runtime
