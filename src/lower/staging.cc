// src/lower/staging.cc — lays out the staging buffer of step inputs
#include "src/lower/staging.h"

#include <algorithm>

#include "src/ir/input.h"
#include "src/tensor/kernel.h"

namespace alpa::lower {
namespace {

constexpr std::int64_t kAlignment = 256, kScalarBytes = 8;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <class Body>
void for_each_load(const DeviceProgram& device, const spmd::SpmdProgram& program, InputKind kind,
                   Body&& body) {
  for (const InstructionList& list : device.lists)
    for (const Instruction& instruction : list.instructions) {
      if (instruction.kind != Instruction::Kind::load) continue;
      const int input = loaded_input(program, instruction);
      if (program.graph.inputs[input].kind == kind) body(input, instruction);
    }
}

}  // namespace

int loaded_input(const spmd::SpmdProgram& program, const Instruction& load) {
  const std::vector<Input>& inputs = program.graph.inputs;
  const int value = program.graph.nodes[load.node].results[0];
  const auto at = std::find_if(inputs.begin(), inputs.end(),
                               [&](const Input& input) { return input.value == value; });
  return static_cast<int>(at - inputs.begin());
}

StagingLayout staging_layout(const DeviceProgram& device, const spmd::SpmdProgram& program) {
  StagingLayout layout;
  layout.of_input.assign(program.graph.inputs.size(), -1);
  const std::int64_t micro_batches = program.graph.num_micro_batches;
  std::int64_t end = static_cast<std::int64_t>(device.lists.size() * sizeof(StepContext));
  for_each_load(device, program, InputKind::scalar, [&](int input, const Instruction&) {
    if (layout.of_input[input] >= 0) return;
    layout.of_input[input] = end;
    end += kScalarBytes;
  });
  layout.header_bytes = end;
  end = aligned(end);
  for (const InputKind kind : {InputKind::batch, InputKind::shared})
    for_each_load(device, program, kind, [&](int input, const Instruction& load) {
      if (layout.of_input[input] >= 0) return;
      layout.of_input[input] = end;
      const std::int64_t copies = kind == InputKind::batch ? micro_batches : 1;
      end = aligned(end + copies * device.buffers[load.outputs[0]].type.bytes());
    });
  layout.bytes = end;
  return layout;
}

}  // namespace alpa::lower
