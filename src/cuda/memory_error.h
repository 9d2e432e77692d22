#pragma once
/// Allocates arenas; explains failures.
#include "handles.h"
#include "kernel.h"

namespace alpa::lower {
struct DeviceProgram;
}  // namespace alpa::lower

namespace alpa::spmd {
struct SpmdProgram;
}  // namespace alpa::spmd

namespace alpa::cuda {

/// An arena of `bytes` for a device on the current card. Throws Error naming what was asked for,
/// what is free, and the largest tensors.
DeviceBlock allocate_arena(std::int64_t bytes, const spmd::SpmdProgram& program,
                           const lower::DeviceProgram& device, const Gpu& card);

}  // namespace alpa::cuda
