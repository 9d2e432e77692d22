#pragma once
/// Progress of a process in its steps.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace alpa::processes {

struct StepReport {
  std::int64_t call = 0;               ///< number of the call that runs, or ran, the last step
  std::int64_t idle_milliseconds = 0;  ///< since one of its devices moved, or the step ended
  std::int64_t together = 0;  ///< how many messages outside of steps the process is done with
  std::vector<std::uint64_t> positions = {};  ///< of its devices in that step
  std::string text = {};                      ///< in words
};

/// The report as bytes for another process.
std::string packed(const StepReport& report);
StepReport unpacked_report(std::string_view bytes);

}  // namespace alpa::processes
