#pragma once
/// From instructions of a device program to kernel calls; data pointers are not set.
#include "alpa/lower/device_program.h"
#include "alpa/tensor/kernel.h"

namespace alpa {

/// Buffer `buffer` as a kernel sees it.
KernelTensor kernel_tensor(const DeviceProgram& device, int buffer);

/// Operands and results of any instruction.
KernelCall tensors_of(const DeviceProgram& device, const Instruction& instruction);

/// The call of a compute instruction for a device of so many threads, without team, step or preparation.
KernelCall kernel_call(const DeviceProgram& device, const SpmdProgram& program,
                       const Instruction& instruction, int threads);

}  // namespace alpa
