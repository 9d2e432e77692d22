// src/cuda/placement.cc — places step inputs in staging memory and metrics in host
// memory, instead of the arena
#include "placement.h"

#include <algorithm>

#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa::cuda {
namespace {

using Kind = lower::Instruction::Kind;

/// Uses of one buffer's memory in a step.
struct Use {
  bool repeated = false;  ///< touched by a list that runs several times
  int loads = 0, writes = 0;
};

/// Writers and readers of each buffer's content, regardless of what its memory held before.
class Contents {
 public:
  explicit Contents(const lower::DeviceProgram& device)
      : device_(device), writes_(device.buffers.size()), writer_(device.buffers.size()) {
    for (int list = 0; list < static_cast<int>(device.lists.size()); ++list)
      for (const lower::Instruction& instruction : device.lists[list].instructions)
        for (int buffer : instruction.outputs)
          writes_[buffer] += lower::runs_of(device, list), writer_[buffer] = &instruction;
  }

  /// The buffer of which `buffer` is a view in another shape; otherwise itself.
  int of(int buffer) const {
    while (writes_[buffer] == 0 && device_.buffers[buffer].alias_of >= 0)
      buffer = device_.buffers[buffer].alias_of;
    return buffer;
  }
  /// Null unless exactly one instruction does it, once per step.
  const lower::Instruction* only_writer(int buffer) const {
    return writes_[buffer] == 1 ? writer_[buffer] : nullptr;
  }
  bool is_read(int buffer) const {
    for (const lower::InstructionList& list : device_.lists)
      for (const lower::Instruction& instruction : list.instructions)
        for (int operand : instruction.inputs)
          if (of(operand) == buffer) return true;
    return false;
  }

 private:
  const lower::DeviceProgram& device_;
  std::vector<int> writes_;  ///< in one step
  std::vector<const lower::Instruction*> writer_;
};

std::vector<Use> uses_of(const lower::DeviceProgram& device) {
  std::vector<Use> uses(device.buffers.size());
  for (int list = 0; list < static_cast<int>(device.lists.size()); ++list) {
    const bool repeated = lower::runs_of(device, list) > 1;
    for (const lower::Instruction& instruction : device.lists[list].instructions) {
      const auto use = [&](int buffer) -> Use& {
        Use& use = uses[lower::memory_of(device, buffer)];
        use.repeated = use.repeated || repeated;
        return use;
      };
      for (int buffer : instruction.inputs) use(buffer);
      for (int buffer : instruction.outputs)
        ++(instruction.kind == Kind::load ? use(buffer).loads : use(buffer).writes);
    }
  }
  return uses;
}

/// Memory that lives from step to step or from micro-batch to micro-batch,
/// or is read after the step.
bool is_lasting(const lower::DeviceProgram& device, int memory) {
  const auto lies_there = [&](int buffer) { return lower::memory_of(device, buffer) == memory; };
  return std::any_of(device.kept.begin(), device.kept.end(), lies_there) ||
         std::any_of(device.zeroed.begin(), device.zeroed.end(), lies_there) ||
         std::any_of(device.returned.begin(), device.returned.end(),
                     [&](const lower::Returned& returned) { return lies_there(returned.buffer); });
}

/// Products go through libraries, which are given device memory only.
bool is_own_kernel(const spmd::SpmdProgram& program, const lower::Instruction& instruction) {
  return instruction.kind == Kind::compute &&
         program.graph.nodes[instruction.node].op->work != Work::heavy;
}

}  // namespace

std::vector<std::int64_t> staged_buffers(const lower::DeviceProgram& device,
                                         const spmd::SpmdProgram& program,
                                         const lower::StagingLayout& layout) {
  const std::vector<Use> uses = uses_of(device);
  std::vector<std::int64_t> staged(device.buffers.size(), -1);
  for (std::size_t i = 0; i < layout.of_input.size(); ++i) {
    if (layout.of_input[i] < 0) continue;
    const Input& input = program.graph.inputs[i];
    const int memory = lower::memory_of(device, device.buffer_of_value[input.value]);
    const Use& use = uses[memory];
    const bool once = use.loads == 1 && !use.repeated;
    const bool constant = input.kind != InputKind::batch && use.writes == 0;
    if ((once || constant) && !is_lasting(device, memory)) staged[memory] = layout.of_input[i];
  }
  for (std::size_t b = 0; b < staged.size(); ++b)
    staged[b] = staged[lower::memory_of(device, static_cast<int>(b))];
  return staged;
}

std::vector<int> direct_metrics(const lower::DeviceProgram& device,
                                const spmd::SpmdProgram& program,
                                const std::vector<lower::Reported>& published) {
  const Contents contents(device);
  std::vector<int> metric(device.buffers.size(), -1);
  for (const lower::Reported& reported : published) {
    const int buffer = contents.of(reported.buffer);
    const lower::Instruction* const writer = contents.only_writer(buffer);
    const auto metrics_there = std::count_if(
        published.begin(), published.end(),
        [&](const lower::Reported& other) { return contents.of(other.buffer) == buffer; });
    if (metrics_there == 1 && writer && is_own_kernel(program, *writer) &&
        !contents.is_read(buffer) && !is_lasting(device, lower::memory_of(device, buffer)))
      metric[buffer] = reported.metric;
  }
  for (std::size_t b = 0; b < metric.size(); ++b)
    metric[b] = metric[contents.of(static_cast<int>(b))];
  return metric;
}

}  // namespace alpa::cuda
