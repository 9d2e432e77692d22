#pragma once
/// Allocates arenas; explains failures.
#include "handles.h"
#include "kernel.h"

namespace alpa {
struct DeviceProgram;
struct SpmdProgram;
}  // namespace alpa

namespace alpa::cuda {

/// An arena of `bytes` for a device on the current card. Throws Error naming what was asked for,
/// what is free, and the largest tensors.
DeviceBlock allocate_arena(std::int64_t bytes, const SpmdProgram& program,
                           const DeviceProgram& device, const Gpu& card);

}  // namespace alpa::cuda
