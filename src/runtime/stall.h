#pragma once
/// Description of devices that have stalled: which device waits for which.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/processes/failure.h"
#include "src/processes/progress.h"
#include "src/runtime/devices.h"

namespace alpa::runtime {

/// Position of a device in its step, in one word that any thread may read at any time.
struct StepPosition {
  static constexpr std::uint64_t kOver = ~std::uint64_t{0};
  /// Code of instruction `at` of run number `run` of the schedule.
  static std::uint64_t code(std::uint64_t run, std::uint64_t at) { return run << 32 | at; }
};

/// The place of device `index` of this process at a position, which is not kOver.
StepPlace place_at(const lower::DeviceProgram& program, int index, std::uint64_t position);

/// "waits for devices 1, 2" of device `index` in a step; "" if it waits for none of those that its
/// instruction needs. `devices` are those of this process, `positions` theirs.
std::string awaited_text(std::span<const lower::DeviceProgram* const> devices,
                         const std::vector<std::uint64_t>& positions, int index);

struct Stall {
  StepPlace place;   ///< of a device that waits for nobody, or of one in a circle
  std::string text;  ///< what it does, and who waits for whom
};

/// The stall of a step in which no instruction has finished for `seconds`. `devices` are in the
/// order of this process; `positions` are theirs.
Stall stall_of(std::span<const lower::DeviceProgram* const> devices,
               const std::vector<std::uint64_t>& positions, const spmd::SpmdProgram& program,
               double seconds);

struct StalledStep {
  std::int64_t number = 0;  ///< of the step
  std::int64_t call = 0;    ///< of all processes, that runs it
  double seconds = 0;       ///< in which no device moved
};

/// The stall of a step whose devices are in several processes. `devices` are those of all,
/// `reports` by rank. Names the process that has not begun the step, or else the device that waits
/// for nobody, and who waits for whom.
processes::Failure stall_of_all(const StalledStep& step,
                                const std::vector<processes::StepReport>& reports,
                                std::span<const lower::DeviceProgram> devices,
                                const Placement& placement, const spmd::SpmdProgram& program);

}  // namespace alpa::runtime
