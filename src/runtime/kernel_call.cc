#include "kernel_call.h"

#include "alpa/base/error.h"

namespace alpa {

KernelTensor kernel_tensor(const DeviceProgram& device, int buffer) {
  const Buffer& b = device.buffers[buffer];
  return {nullptr, b.type, b.offset, b.global_shape};
}

KernelCall kernel_call(const DeviceProgram& device, const SpmdProgram& program,
                       const Instruction& instruction, ThreadTeam& team) {
  const Node& node = program.graph.nodes[instruction.node];
  invariant(node.op->cpu && *node.op->cpu, "\"{}\": operator {} has no CPU kernel", node.name,
            node.op->name);
  KernelCall call;
  for (int buffer : instruction.inputs) call.inputs.push_back(kernel_tensor(device, buffer));
  for (int buffer : instruction.outputs) call.outputs.push_back(kernel_tensor(device, buffer));
  call.attributes = &node.attributes;
  call.team = &team;
  return call;
}

}  // namespace alpa
