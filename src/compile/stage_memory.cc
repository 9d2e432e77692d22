// src/compile/stage_memory.cc — what the devices of each stage hold
#include "stage_memory.h"

#include <algorithm>

namespace alpa {
namespace {

StageMemory stage_memory(const lower::DeviceProgram& device, std::int64_t limit) {
  const std::vector<lower::LiveRange> ranges = lower::live_ranges(device);
  const auto memories = [&](const std::vector<int>& buffers) {
    std::vector<bool> result(device.buffers.size());
    for (int b : buffers) result[lower::memory_of(device, b)] = true;
    return result;
  };
  const std::vector<bool> kept = memories(device.kept), zeroed = memories(device.zeroed);
  StageMemory memory{.limit = limit};
  for (int b = 0; b < static_cast<int>(device.buffers.size()); ++b) {
    const lower::Buffer& buffer = device.buffers[b];
    if (buffer.alias_of >= 0 || ranges[b].empty()) continue;
    const std::int64_t bytes =
        buffer.slots > 1 ? buffer.slots * buffer.slot_bytes : buffer.type.bytes();
    const bool always = ranges[b].begin < 0 && ranges[b].end >= lower::num_positions(device) - 1;
    if (kept[b])
      memory.state += bytes;
    else if (zeroed[b])
      memory.accumulators += bytes;
    else if (buffer.slots > 1 || always)
      memory.activations += bytes;
    if (buffer.slots > 1) memory.in_flight = std::max(memory.in_flight, buffer.slots);
  }
  memory.temporaries = device.arena_bytes - memory.state - memory.accumulators - memory.activations;
  return memory;
}

}  // namespace

void set_memory(std::vector<StagePlan>& stages, const std::vector<lower::DeviceProgram>& devices,
                std::int64_t limit) {
  for (StagePlan& stage : stages)
    for (const lower::DeviceProgram& device : devices) {
      const std::vector<int>& own = stage.plan.mesh.devices();
      if (std::find(own.begin(), own.end(), device.device) == own.end()) continue;
      if (device.arena_bytes > stage.memory.total()) stage.memory = stage_memory(device, limit);
    }
}

}  // namespace alpa
