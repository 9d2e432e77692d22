// src/compile/lower_program.cc — the passes that the memory budget steers: merging collectives, and
// lowering
#include "lower_program.h"

#include <algorithm>

#include "src/report/pipeline_forecast.h"
#include "src/runtime/executor.h"
#include "stage_memory.h"

namespace alpa {
namespace {

/// Passes that merge collectives, and all later ones.
CompiledStep lowered(CompiledStep planned, const spmd::SpmdProgram& fused,
                     std::int64_t bucket_bytes, std::int64_t slack, const LoweringTarget& target) {
  const PassLog& log = target.log;
  spmd::SpmdProgram program =
      log.check("bucketed.txt", spmd::bucket_collectives(fused, bucket_bytes, slack));
  if (target.backend.launches && target.options.overlap_updates)
    program = log.check("overlap_updates.txt", spmd::overlap_updates(program));
  if (target.backend.launches)
    program =
        log.check("joined.txt", spmd::fuse_squared_norms(spmd::fuse_optimizer_updates(program)));
  runtime::LoweredProgram devices = runtime::lower_program(
      program, target.options, target.backend.name, schedule_of(planned.plan), target.state);
  log.write("device0.txt", [&] { return to_string(devices.firsts.front(), program); });
  for (const lower::DeviceProgram& device : devices.firsts)  // exact, as an executor will take
    planned.memory_bytes = std::max(planned.memory_bytes, device.arena_bytes);
  set_memory(planned.plan.stages, devices.firsts, target.budget);
  planned.program = std::make_shared<const spmd::SpmdProgram>(std::move(program));
  planned.lowered = std::make_shared<const runtime::LoweredProgram>(std::move(devices));
  log.finished("lowering");
  return planned;
}

/// How much merged collectives may add to a program's peak: one bucket, but at most a
/// quarter of the unused budget.
std::int64_t bucket_slack(const spmd::SpmdProgram& program, std::int64_t bucket_bytes,
                          std::int64_t budget) {
  return std::clamp<std::int64_t>((budget - spmd::estimated_bytes(program)) / 4, 0, bucket_bytes);
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
  const std::int64_t bucket = target.options.bucket_bytes, budget = target.budget;
  const std::int64_t slack = bucket_slack(fused, bucket, budget);
  CompiledStep result = lowered(planned, fused, bucket, slack, target);
  if (state_exceeds(result, budget)) return result;
  if (result.memory_bytes > budget && slack > 0)
    result = lowered(planned, fused, bucket, 0, target);
  return result.memory_bytes <= budget ? result : lowered(planned, fused, 0, 0, target);
}

}  // namespace alpa
