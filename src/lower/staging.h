#pragma once
/// Layout of the buffer in which uploaded step inputs wait until the device's program loads them.
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::lower {

/// Steps whose inputs fit into the staging buffer, and most steps in flight: one runs, one is
/// uploaded, one is packed by the host.
inline constexpr int kStagedSteps = 3;

/// One step's part of the staging buffer. First a StepContext per list (its micro-batch
/// changes while the step runs) and the scalars, equal on all devices. Then the device's
/// slices of the batch inputs, micro-batch by micro-batch, and of the shared inputs. Offsets
/// are multiples of 256 bytes (scalars: 8).
struct StagingLayout {
  std::vector<std::int64_t> of_input;  ///< offset per graph input; -1: the program does not load it
  std::int64_t header_bytes = 0;       ///< contexts, at offset 0, and scalars
  std::int64_t bytes = 0;
};

StagingLayout staging_layout(const DeviceProgram& device, const spmd::SpmdProgram& program);

/// Index, among the graph's inputs, of the input that a `load` reads.
int loaded_input(const spmd::SpmdProgram& program, const Instruction& load);

}  // namespace alpa::lower
