// src/lower/lower_program.cc — a program lowered as an executor with given options loads it
#include "lower_program.h"

#include "backend.h"
#include "memory_plan.h"
#include "memory_rules.h"

namespace alpa::lower {

LoweredProgram lower_program(const spmd::SpmdProgram& program, const ExecutorOptions& options,
                             std::string_view backend, const pipeline::PipelineSchedule& schedule,
                             const StateLayout* state, bool awaits_within_peak) {
  const Backend& found = find_backend(backend);
  const int devices = static_cast<int>(spmd::devices_of(program).size());
  LoweredProgram lowered{std::string(backend),
                         overlaps(found, options, devices),
                         threads_per_device(found, options, devices),
                         {},
                         schedule};
  MemoryRules rules = memory_rules(backend, lowered.threads);
  rules.awaits_within_peak = awaits_within_peak;
  lowered.firsts = lower_classes(program, lowered.overlap, rules, schedule, state);
  return lowered;
}

}  // namespace alpa::lower
