#include "placement.h"

#include <algorithm>

#include "alpa/ir/input.h"

namespace alpa::cuda {
namespace {

using Kind = Instruction::Kind;

/// What happens to the memory of one buffer in a step.
struct Use {
  bool in_accumulate = false;  ///< touched by that list
  int loads = 0, writes = 0, reads = 0;
  const Instruction* writer = nullptr;  ///< the last one that is no load
};

std::vector<Use> uses_of(const DeviceProgram& device) {
  std::vector<Use> uses(device.buffers.size());
  for (const auto* list : {&device.accumulate, &device.apply})
    for (const Instruction& instruction : *list) {
      const auto use = [&](int buffer) -> Use& {
        Use& use = uses[memory_of(device, buffer)];
        use.in_accumulate |= list == &device.accumulate;
        return use;
      };
      for (int buffer : instruction.inputs) ++use(buffer).reads;
      for (int buffer : instruction.outputs) {
        Use& written = use(buffer);
        ++(instruction.kind == Kind::load ? written.loads : written.writes);
        if (instruction.kind != Kind::load) written.writer = &instruction;
      }
    }
  return uses;
}

/// Memory that lives from step to step, or from micro-batch to micro-batch.
bool is_state(const DeviceProgram& device, int memory) {
  const auto lies_there = [&](int buffer) { return memory_of(device, buffer) == memory; };
  return std::any_of(device.kept.begin(), device.kept.end(), lies_there) ||
         std::any_of(device.zeroed.begin(), device.zeroed.end(), lies_there);
}

/// Products go through cuBLASLt, which is given device memory only.
bool is_own_kernel(const SpmdProgram& program, const Instruction& instruction) {
  return instruction.kind == Kind::compute &&
         !program.graph.nodes[instruction.node].op->name.starts_with("einsum");
}

}  // namespace

std::vector<std::int64_t> staged_buffers(const DeviceProgram& device, const SpmdProgram& program,
                                         const StagingLayout& layout) {
  const std::vector<Use> uses = uses_of(device);
  std::vector<std::int64_t> staged(device.buffers.size(), -1);
  for (std::size_t i = 0; i < layout.of_input.size(); ++i) {
    if (layout.of_input[i] < 0) continue;
    const Input& input = program.graph.inputs[i];
    const int memory = memory_of(device, device.buffer_of_value[input.value]);
    const Use& use = uses[memory];
    const bool once = use.loads == 1 && !use.in_accumulate;
    const bool constant = input.kind == InputKind::scalar && use.writes == 0;
    if ((once || constant) && !is_state(device, memory)) staged[memory] = layout.of_input[i];
  }
  for (std::size_t b = 0; b < staged.size(); ++b)
    staged[b] = staged[memory_of(device, static_cast<int>(b))];
  return staged;
}

std::vector<int> direct_metrics(const DeviceProgram& device, const SpmdProgram& program,
                                const std::vector<std::int64_t>& staged) {
  const std::vector<Use> uses = uses_of(device);
  std::vector<int> metric(device.buffers.size(), -1);
  for (std::size_t i = 0; i < device.reported.size(); ++i) {
    const int memory = memory_of(device, device.reported[i]);
    const Use& use = uses[memory];
    const auto metrics_there = std::count_if(device.reported.begin(), device.reported.end(),
                                             [&](int other) { return memory_of(device, other) == memory; });
    if (metrics_there == 1 && use.writes == 1 && use.reads + use.loads == 0 && !use.in_accumulate &&
        staged[memory] < 0 && !is_state(device, memory) && is_own_kernel(program, *use.writer))
      metric[memory] = static_cast<int>(i);
  }
  for (std::size_t b = 0; b < metric.size(); ++b)
    metric[b] = metric[memory_of(device, static_cast<int>(b))];
  return metric;
}

}  // namespace alpa::cuda
