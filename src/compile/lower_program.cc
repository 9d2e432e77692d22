// src/compile/lower_program.cc — the passes that the memory budget steers: merging collectives, and
// lowering
#include "lower_program.h"

#include <algorithm>
#include <optional>

#include "src/lower/lower_program.h"
#include "src/report/pipeline_forecast.h"
#include "src/spmd/einsum_group.h"

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

/// Notes in `stages` what their devices hold: of each stage, the device that holds most. `limit`:
/// bytes that a device may use.
void set_memory(std::vector<StagePlan>& stages, const std::vector<lower::DeviceProgram>& devices,
                std::int64_t limit) {
  for (StagePlan& stage : stages)
    for (const lower::DeviceProgram& device : devices) {
      const std::vector<int>& own = stage.plan.mesh.devices();
      if (std::find(own.begin(), own.end(), device.device) == own.end()) continue;
      if (device.arena_bytes > stage.memory.total()) stage.memory = stage_memory(device, limit);
    }
}

/// How collectives are moved and merged, and products merged.
struct Moves {
  std::int64_t bucket_bytes = 0;  ///< of collectives
  std::int64_t slack = 0;         ///< that merging may add to the peak
  std::optional<std::int64_t> ahead =
      std::nullopt;      ///< that prefetching may add to it; none: none is prefetched
  bool products = true;  ///< those of one operand are merged, whose tensors then lie side by side
  bool awaits_within_peak = false;  ///< as in lower::MemoryRules
};

/// Passes that move and merge collectives and products, and all later ones.
CompiledStep lowered(CompiledStep planned, const spmd::SpmdProgram& fused, const Moves& moves,
                     const LoweringTarget& target) {
  const PassLog& log = target.log;
  spmd::SpmdProgram program = spmd::bucket_collectives(fused, moves.bucket_bytes, moves.slack);
  if (moves.ahead) program = spmd::prefetch_gathers(program, *moves.ahead);
  program = log.check("bucketed.txt", std::move(program));
  if (target.backend.groups_einsums && moves.products)
    program = log.check("grouped.txt",
                        spmd::group_einsums(program, target.backend.groups_einsums, moves.slack));
  if (target.backend.launches && target.options.overlap_updates)
    program = log.check("overlap_updates.txt", spmd::overlap_updates(program));
  if (target.backend.launches)
    program =
        log.check("joined.txt", spmd::fuse_squared_norms(spmd::fuse_optimizer_updates(program)));
  lower::LoweredProgram devices =
      lower::lower_program(program, target.options, target.backend.name, schedule_of(planned.plan),
                           target.state, moves.awaits_within_peak);
  log.write("device0.txt", [&] { return to_string(devices.firsts.front(), program); });
  for (const lower::DeviceProgram& device : devices.firsts)  // exact, as an executor will take
    planned.memory_bytes = std::max(planned.memory_bytes, device.arena_bytes);
  set_memory(planned.plan.stages, devices.firsts, target.budget);
  planned.program = std::make_shared<const spmd::SpmdProgram>(std::move(program));
  planned.lowered = std::make_shared<const lower::LoweredProgram>(std::move(devices));
  log.finished("lowering");
  return planned;
}

/// A quarter of the unused budget: how much prefetched gathers may add to a program's peak, and
/// merged collectives up to the size of a bucket.
std::int64_t spare_bytes(const spmd::SpmdProgram& program, std::int64_t budget) {
  return std::max<std::int64_t>((budget - spmd::estimated_bytes(program)) / 4, 0);
}

/// Whether what devices keep from step to step takes more than the budget, whatever else is done.
bool state_exceeds(const CompiledStep& planned, std::int64_t budget) {
  return std::any_of(planned.lowered->firsts.begin(), planned.lowered->firsts.end(),
                     [&](const lower::DeviceProgram& device) {
                       std::int64_t bytes = 0;
                       for (int buffer : device.kept) bytes += device.buffers[buffer].type.bytes();
                       return bytes > budget;
                     });
}

}  // namespace

CompiledStep lower_within_budget(const CompiledStep& planned, const spmd::SpmdProgram& fused,
                                 const LoweringTarget& target) {
  const std::int64_t budget = target.budget, spare = spare_bytes(fused, budget);
  const std::int64_t bucket = target.options.bucket_bytes.value_or(target.backend.bucket_bytes);
  const auto num_devices = static_cast<int>(spmd::devices_of(fused).size());
  const bool overlaps = lower::overlaps(target.backend, target.options, num_devices);
  const auto ahead = [&](std::int64_t bytes) {
    return overlaps ? std::optional(bytes) : std::nullopt;
  };
  CompiledStep result =
      lowered(planned, fused, {bucket, std::min(spare, bucket), ahead(spare)}, target);
  if (state_exceeds(result, budget)) return result;
  if (result.memory_bytes > budget && (spare > 0 || overlaps))
    result =
        lowered(planned, fused,
                {.bucket_bytes = bucket, .ahead = ahead(0), .awaits_within_peak = true}, target);
  if (result.memory_bytes > budget)
    result = lowered(planned, fused, {.products = false, .awaits_within_peak = true}, target);
  return result;
}

}  // namespace alpa
