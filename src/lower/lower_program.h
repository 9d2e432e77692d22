#pragma once
/// From a program to the device programs that an executor loads, memory planned.
#include <string>
#include <string_view>
#include <vector>

#include "alpa/lower/executor_options.h"
#include "src/lower/device_program.h"
#include "src/lower/state_layout.h"

namespace alpa::lower {

/// Device programs of the first device of every class (rank_classes.h), with what they are
/// lowered for.
struct LoweredProgram {
  std::string backend;
  bool overlap = false;
  int threads = 1;  ///< per device
  std::vector<DeviceProgram> firsts;
  pipeline::PipelineSchedule schedule = {};  ///< that they follow
};

/// Lowers `program` as an executor with these options does before loading it. `state`: the layout
/// of the state it shares (state_layout.h). `awaits_within_peak`: as in MemoryRules.
LoweredProgram lower_program(const spmd::SpmdProgram& program, const ExecutorOptions& options,
                             std::string_view backend,
                             const pipeline::PipelineSchedule& schedule = {},
                             const StateLayout* state = nullptr, bool awaits_within_peak = false);

}  // namespace alpa::lower
