#pragma once
/// A standstill of a step whose devices are in several processes.
#include <cstdint>
#include <span>
#include <vector>

#include "src/lower/device_program.h"
#include "src/processes/failure.h"
#include "src/processes/progress.h"
#include "src/runtime/placement.h"

namespace alpa::runtime {

struct StalledStep {
  std::int64_t number = 0;  ///< of the step
  std::int64_t call = 0;    ///< of all processes, that runs it
  double seconds = 0;       ///< in which no device moved
};

/// `devices` are those of all processes, `reports` by rank. Names the process that has not begun
/// the step, or else the device that waits for nobody, and who waits for whom.
processes::Failure stall_of_all(const StalledStep& step,
                                const std::vector<processes::StepReport>& reports,
                                std::span<const lower::DeviceProgram> devices,
                                const Placement& placement, const spmd::SpmdProgram& program);

}  // namespace alpa::runtime
