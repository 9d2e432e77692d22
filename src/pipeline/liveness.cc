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

/// Positions of one list start at `first`.
void touch_all(const DeviceProgram& device, const std::vector<Instruction>& list, int first,
               std::vector<LiveRange>& ranges) {
  const int last = static_cast<int>(list.size()) - 1;
  for (int i = 0; i <= last; ++i) {
    const Instruction& instruction = list[i];
    if (instruction.kind == Instruction::Kind::wait)
      touch(device, list.at(instruction.awaits), first + instruction.awaits, first + i, ranges);
    else
      touch(device, instruction, first + i, first + (instruction.aside ? last : i), ranges);
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

MemoryUses::MemoryUses(const DeviceProgram& device) : of_(device.buffers.size()) {
  const int apply = static_cast<int>(device.accumulate.size()),
            end = apply + static_cast<int>(device.apply.size());
  const auto for_each_memory = [&](const Instruction& instruction, auto&& body) {
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs})
      for (int buffer : *buffers) body(of_[memory_of(device, buffer)]);
  };
  for (int position = 0; position < end; ++position) {
    const Instruction& instruction = instruction_at(device, position);
    for_each_memory(instruction, [&](Uses& uses) { uses.last = position; });
    for (int buffer : instruction.outputs)
      if (int& first = of_[memory_of(device, buffer)].first_write; first < 0) first = position;
    if (instruction.aside)
      for_each_memory(instruction, [&](Uses& uses) { uses.flights.push_back({position, end}); });
    if (instruction.kind != Instruction::Kind::wait) continue;
    const int start = (position >= apply ? apply : 0) + instruction.awaits;
    for_each_memory(instruction_at(device, start), [&](Uses& uses) {
      uses.flights.push_back({start, position});
    });
  }
}

bool MemoryUses::used_after(int memory, int position) const {
  const Uses& uses = of_[memory];
  return uses.last > position ||
         std::any_of(uses.flights.begin(), uses.flights.end(), [position](const Flight& flight) {
           return flight.wait > position && flight.start != position;
         });
}

void MemoryUses::move(int memory, int owner) {
  Uses& from = of_[memory];
  Uses& to = of_[owner];
  if (to.first_write < 0 || (from.first_write >= 0 && from.first_write < to.first_write))
    to.first_write = from.first_write;
  to.last = std::max(to.last, from.last);
  to.flights.insert(to.flights.end(), from.flights.begin(), from.flights.end());
  from = {};
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
