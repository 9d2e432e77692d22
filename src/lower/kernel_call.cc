// src/lower/kernel_call.cc — kernel calls for instructions
#include "src/lower/kernel_call.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/ir/op_def.h"

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

namespace {

bool begins_with(const DimFactors& dims, int factor) {
  return !dims.empty() && !dims[0].empty() && dims[0].front() == factor;
}

/// The parts of the chunked factor that this device has of all chunks.
int local_chunks(const Rule& rule, const KernelCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].size(); ++d) {
      const std::vector<int>& factors = rule.operands[i][d];
      if (std::find(factors.begin(), factors.end(), rule.chunked) == factors.end()) continue;
      const KernelTensor& tensor = call.inputs[i];
      const std::int64_t held = sum_chunks(rule) * tensor.type.shape[d];
      invariant(held % tensor.global_shape[d] == 0, "{} of {} elements are no whole chunks",
                tensor.type.shape[d], tensor.global_shape[d]);
      return static_cast<int>(held / tensor.global_shape[d]);
    }
  return 1;
}

}  // namespace

SumOrder sum_order(const Rule& rule, const KernelCall& call) {
  SumOrder order{.chunks = 1};
  if (rule.chunked < 0) return order;
  order.chunks = local_chunks(rule, call);
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    order.inputs |= static_cast<std::uint32_t>(begins_with(rule.operands[i], rule.chunked)) << i;
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    order.outputs |= static_cast<std::uint32_t>(begins_with(rule.results[i], rule.chunked)) << i;
  return order;
}

KernelCall kernel_call(const DeviceProgram& device, const spmd::SpmdProgram& program,
                       const Instruction& instruction, int threads) {
  KernelCall call = tensors_of(device, instruction);
  const Node& node = program.graph.nodes[instruction.node];
  call.attributes = &node.attributes;
  call.threads = threads;
  // Operators of the program share one kernel.
  if (node.op->custom) call.prepared = {std::shared_ptr<void>(), node.op->custom};
  if (program.fixed_sums) call.sums = sum_order(rule_of(program.graph, node), call);
  return call;
}

}  // namespace alpa::lower
