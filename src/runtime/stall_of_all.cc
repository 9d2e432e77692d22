// src/runtime/stall_of_all.cc — who waits for whom, across processes
#include "stall_of_all.h"

#include <fmt/core.h>

#include "alpa/base/text.h"
#include "src/runtime/devices.h"
#include "stall.h"

namespace alpa::runtime {

processes::Failure stall_of_all(const StalledStep& step,
                                const std::vector<processes::StepReport>& reports,
                                std::span<const lower::DeviceProgram> devices,
                                const Placement& placement, const spmd::SpmdProgram& program) {
  const processes::World& world = *placement.world();
  for (const processes::Process& process : world.processes())
    if (const processes::StepReport& report = reports[process.rank]; report.call < step.call)
      return {fmt::format("{} has not begun step {} after {}: it was last {}; give a larger "
                          "stall_seconds if it takes longer",
                          processes::to_string(process, world.size()), step.number,
                          seconds_text(step.seconds), report.text),
              2, process.rank, true};
  std::vector<const lower::DeviceProgram*> programs;
  std::vector<std::uint64_t> positions;
  std::vector<std::size_t> next(reports.size());
  for (const lower::DeviceProgram& device : devices) {
    const int rank = placement.rank_of(device.device);
    const processes::StepReport& report = reports[rank];
    programs.push_back(&device);
    positions.push_back(report.call == step.call ? report.positions.at(next[rank]++)
                                                 : StepPosition::kOver);
  }
  const Stall stall = stall_of(programs, positions, program, step.seconds);
  const lower::DeviceProgram& culprit = devices[stall.place.device];
  return {to_string(stall.place, culprit, program) + ": " + stall.text, 2,
          placement.rank_of(culprit.device)};
}

}  // namespace alpa::runtime
