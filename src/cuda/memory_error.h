#pragma once
/// Allocates arenas; explains failures.
#include "handles.h"
#include "kernel.h"

namespace alpa {
struct DeviceProgram;
struct SpmdProgram;
}  // namespace alpa

namespace alpa::cuda {

/// The arena of a device on the current card. Throws Error naming what was asked for, what is
/// free, and the largest tensors.
DeviceBlock allocate_arena(const SpmdProgram& program, const DeviceProgram& device,
                           const Gpu& card);

}  // namespace alpa::cuda
