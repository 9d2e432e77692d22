// src/pipeline/liveness.cc — when the memory of a device program's buffers is in use
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/pipeline/device_program.h"

namespace alpa {
namespace {

void extend(LiveRange& range, int begin, int end) {
  range = range.empty() ? LiveRange{begin, end}
                        : LiveRange{std::min(range.begin, begin), std::max(range.end, end)};
}

void touch(const DeviceProgram& device, const Instruction& instruction, int from, int to,
           std::vector<LiveRange>& ranges) {
  for (const auto* buffers : {&instruction.inputs, &instruction.outputs})
    for (int buffer : *buffers) extend(ranges[memory_of(device, buffer)], from, to);
  if (instruction.workspace >= 0) extend(ranges[instruction.workspace], from, to);
}

bool touches(const DeviceProgram& device, const Instruction& instruction, int memory) {
  const auto lies_there = [&](int buffer) { return memory_of(device, buffer) == memory; };
  return std::any_of(instruction.inputs.begin(), instruction.inputs.end(), lies_there) ||
         std::any_of(instruction.outputs.begin(), instruction.outputs.end(), lies_there);
}

/// Positions of one list start at `first`.
void touch_all(const DeviceProgram& device, const std::vector<Instruction>& list, int first,
               std::vector<LiveRange>& ranges) {
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Instruction& instruction = list[i];
    if (instruction.kind == Instruction::Kind::wait)
      touch(device, list.at(instruction.awaits), first + instruction.awaits, first + i, ranges);
    else
      touch(device, instruction, first + i, first + i, ranges);
  }
}

}  // namespace

int memory_of(const DeviceProgram& device, int buffer) {
  while (device.buffers[buffer].alias_of >= 0) buffer = device.buffers[buffer].alias_of;
  return buffer;
}

std::vector<LiveRange> live_ranges(const DeviceProgram& device) {
  std::vector<LiveRange> ranges(device.buffers.size());
  const int micro_batch_end = static_cast<int>(device.accumulate.size()),
            end = micro_batch_end + static_cast<int>(device.apply.size());
  touch_all(device, device.accumulate, 0, ranges);
  touch_all(device, device.apply, micro_batch_end, ranges);
  for (int buffer : device.kept) extend(ranges[memory_of(device, buffer)], -1, end);
  for (int buffer : device.zeroed) extend(ranges[memory_of(device, buffer)], -1, micro_batch_end - 1);
  for (int buffer : device.reported) {
    LiveRange& range = ranges[memory_of(device, buffer)];
    extend(range, range.empty() ? end : range.begin, end);
  }
  return ranges;
}

const Instruction& instruction_at(const DeviceProgram& device, int position) {
  const int first = static_cast<int>(device.accumulate.size());
  return position < first ? device.accumulate[position] : device.apply[position - first];
}

bool used_after(const DeviceProgram& device, int memory, int position) {
  const int apply = static_cast<int>(device.accumulate.size()),
            end = apply + static_cast<int>(device.apply.size());
  for (int later = position + 1; later < end; ++later) {
    const Instruction& instruction = instruction_at(device, later);
    if (touches(device, instruction, memory)) return true;
    if (instruction.kind != Instruction::Kind::wait) continue;
    const int started = (later >= apply ? apply : 0) + instruction.awaits;
    if (started != position && touches(device, instruction_at(device, started), memory)) return true;
  }
  return false;
}

bool may_overwrite(const DeviceProgram& device, const SpmdProgram& program, const Instruction& instruction,
                   std::size_t input, std::size_t output) {
  using Kind = Instruction::Kind;
  if (instruction.kind != Kind::compute && instruction.kind != Kind::collective &&
      instruction.kind != Kind::start)
    return false;
  const OpDef* op = program.graph.nodes[instruction.node].op;
  if (!op->in_place) return false;
  // Elementwise kernels read an element of every input before they write it; others pair result i with
  // operand i.
  const bool elementwise = op->elementwise >= 0 || op == &ops::fused;
  return (elementwise || input == output) &&
         device.buffers[instruction.inputs[input]].type == device.buffers[instruction.outputs[output]].type;
}

}  // namespace alpa
