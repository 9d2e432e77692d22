#pragma once
/// From instructions of a device program to kernel calls.
#include "alpa/pipeline/device_program.h"
#include "alpa/tensor/kernel.h"

namespace alpa {

/// Buffer `buffer` as a kernel sees it; data is not set.
KernelTensor kernel_tensor(const DeviceProgram& device, int buffer);

/// The call of a compute instruction without data, step or preparation. Throws Bug if the operator has no
/// CPU kernel.
KernelCall kernel_call(const DeviceProgram& device, const SpmdProgram& program,
                       const Instruction& instruction, ThreadTeam& team);

}  // namespace alpa
