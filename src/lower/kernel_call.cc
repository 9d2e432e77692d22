// src/lower/kernel_call.cc — kernel calls for instructions
#include "src/lower/kernel_call.h"

namespace alpa::lower {

KernelTensor kernel_tensor(const DeviceProgram& device, int buffer) {
  const Buffer& b = device.buffers[buffer];
  return {nullptr, b.type, b.offset, b.global_shape};
}

KernelCall tensors_of(const DeviceProgram& device, const Instruction& instruction) {
  KernelCall call;
  for (int buffer : instruction.inputs) call.inputs.push_back(kernel_tensor(device, buffer));
  for (int buffer : instruction.outputs) call.outputs.push_back(kernel_tensor(device, buffer));
  return call;
}

KernelCall kernel_call(const DeviceProgram& device, const spmd::SpmdProgram& program,
                       const Instruction& instruction, int threads) {
  KernelCall call = tensors_of(device, instruction);
  call.attributes = &program.graph.nodes[instruction.node].attributes;
  call.threads = threads;
  return call;
}

}  // namespace alpa::lower
