#pragma once
/// Buffers of a device program outside the arena: inputs that kernels read from the staging buffer,
/// and metrics that kernels write to host memory.
#include <cstdint>
#include <vector>

#include "src/lower/device_program.h"
#include "src/lower/staging.h"

namespace alpa::cuda {

/// Per buffer: its offset in a step's part of the staging buffer, or -1 if it is elsewhere. An
/// input stays there if nothing can miss the copy that a load would make: it is loaded once per
/// step, or it is a scalar or shared and nothing writes over it. (Micro-batches' parts may begin at
/// addresses that kernels are slow with.)
std::vector<std::int64_t> staged_buffers(const lower::DeviceProgram& device,
                                         const spmd::SpmdProgram& program,
                                         const lower::StagingLayout& layout);

/// Per buffer: the metric of `published` that the one kernel which writes it can write in the
/// host's memory, because nothing reads it; -1: none. The buffer does not lie in its place in the
/// arena then, also if that is an operand's.
std::vector<int> direct_metrics(const lower::DeviceProgram& device,
                                const spmd::SpmdProgram& program,
                                const std::vector<lower::Reported>& published);

}  // namespace alpa::cuda
