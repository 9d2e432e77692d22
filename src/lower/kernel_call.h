#pragma once
/// Kernel calls for the instructions of a device program; data pointers are not set.
#include "src/lower/device_program.h"
#include "src/tensor/kernel.h"

namespace alpa::lower {

/// Buffer `buffer` as a kernel sees it.
KernelTensor kernel_tensor(const DeviceProgram& device, int buffer);

/// Operands and results of any instruction.
KernelCall tensors_of(const DeviceProgram& device, const Instruction& instruction);

/// The one order of sums in a call of an operator with this rule: the chunks that the device holds.
SumOrder sum_order(const Rule& rule, const KernelCall& call);

/// The call of a compute instruction on a device with `threads` threads; team, step
/// and preparation are not set.
KernelCall kernel_call(const DeviceProgram& device, const spmd::SpmdProgram& program,
                       const Instruction& instruction, int threads);

}  // namespace alpa::lower
