#pragma once
/// Where the inputs of a step wait on a device until its program loads them.
#include <vector>

#include "alpa/lower/device_program.h"

namespace alpa {

/// Steps whose inputs fit into the staging buffer, and steps under way at once: one that runs, one that is
/// uploaded, one that the host packs.
inline constexpr int kStagedSteps = 3;

/// One step's part of the staging buffer: first what is the same for all devices but small (a StepContext
/// per list, whose micro-batch changes while the step runs; scalars), then the device's slices of the batch
/// inputs, all micro-batches one after the other. Offsets are multiples of 256 bytes, but for scalars (8).
struct StagingLayout {
  std::vector<std::int64_t> of_input;  ///< offset per graph input; -1: the program does not load it
  std::int64_t header_bytes = 0;       ///< contexts, at offset 0, and scalars
  std::int64_t bytes = 0;
};

StagingLayout staging_layout(const DeviceProgram& device, const SpmdProgram& program);

/// Index among the graph's inputs of the input that a `load` brings.
int loaded_input(const SpmdProgram& program, const Instruction& load);

}  // namespace alpa
