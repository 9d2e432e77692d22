// src/lower/liveness.cc — when the memory of a device program's buffers is in use
#include <algorithm>

#include "src/ir/op_def.h"
#include "src/lower/carried_memory.h"
#include "src/lower/device_program.h"

namespace alpa::lower {
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

/// True for waits that end the use of memory by a collective or a received message;
/// sent memory stays in use.
bool awaits_result(const std::vector<Instruction>& list, const Instruction& wait) {
  return wait.awaits_list < 0 && list.at(wait.awaits).kind != Instruction::Kind::send;
}

/// Positions of one list start at `first`.
void touch_all(const DeviceProgram& device, const std::vector<Instruction>& list, int first,
               std::vector<LiveRange>& ranges) {
  const int last = static_cast<int>(list.size()) - 1;
  for (int i = 0; i <= last; ++i) {
    const Instruction& instruction = list[i];
    if (instruction.kind == Instruction::Kind::wait) {
      if (awaits_result(list, instruction))
        touch(device, list.at(instruction.awaits), first + instruction.awaits, first + i, ranges);
    } else {
      touch(device, instruction, first + i, first + (instruction.overlapped ? last : i), ranges);
    }
  }
}

}  // namespace

int memory_of(const DeviceProgram& device, int buffer) {
  while (device.buffers[buffer].alias_of >= 0) buffer = device.buffers[buffer].alias_of;
  return buffer;
}

int runs_of(const DeviceProgram& device, int list) {
  return static_cast<int>(std::count_if(device.schedule.begin(), device.schedule.end(),
                                        [list](const ListRun& run) { return run.list == list; }));
}

int first_position(const DeviceProgram& device, int list) {
  int position = 0;
  for (int l = 0; l < list; ++l) position += static_cast<int>(device.lists[l].instructions.size());
  return position;
}

int num_positions(const DeviceProgram& device) {
  return first_position(device, static_cast<int>(device.lists.size()));
}

namespace {

/// Values passed between lists are in use while other lists run in between; sent values, and those
/// made before the micro-batches, always.
void extend_beside(const DeviceProgram& device, std::vector<LiveRange>& ranges) {
  const std::vector<CarriedMemory> carries = carried_memory(device);
  const std::vector<bool> sends = sent(device);
  for (std::size_t b = 0; b < ranges.size(); ++b) {
    for (int list : carries[b].beside)
      extend(ranges[b], first_position(device, list), first_position(device, list + 1) - 1);
    if (sends[b] || carries[b].lasting) extend(ranges[b], -1, num_positions(device));
  }
  for (const InstructionList& list : device.lists)
    for (const Instruction& instruction : list.instructions)
      if (instruction.kind == Instruction::Kind::send && instruction.workspace >= 0)
        extend(ranges[instruction.workspace], -1, num_positions(device));
}

}  // namespace

std::vector<LiveRange> live_ranges(const DeviceProgram& device) {
  std::vector<LiveRange> ranges(device.buffers.size());
  int first = 0, repeated_end = -1;  // of the lists that run for several micro-batches
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l) {
    const std::vector<Instruction>& list = device.lists[l].instructions;
    touch_all(device, list, first, ranges);
    first += static_cast<int>(list.size());
    if (runs_of(device, l) > 1) repeated_end = first - 1;
  }
  const int end = first;
  extend_beside(device, ranges);
  for (int buffer : device.kept) extend(ranges[memory_of(device, buffer)], -1, end);
  for (int buffer : device.zeroed) extend(ranges[memory_of(device, buffer)], -1, repeated_end);
  for (const Reported& reported : device.reported) {
    LiveRange& range = ranges[memory_of(device, reported.buffer)];
    extend(range, range.empty() ? end : range.begin, end);
  }
  for (const Returned& returned : device.returned) {
    LiveRange& range = ranges[memory_of(device, returned.buffer)];
    const bool repeated = range.begin <= repeated_end;  // all micro-batches' slots, all the time
    extend(range, repeated ? -1 : range.begin, end);
  }
  return ranges;
}

bool boxes_meet(const Message& a, const Message& b) {
  for (std::size_t d = 0; d < a.begin.size(); ++d)
    if (a.begin[d] + a.extent[d] <= b.begin[d] || b.begin[d] + b.extent[d] <= a.begin[d])
      return false;
  return true;
}

int list_at(const DeviceProgram& device, int position) {
  int list = 0;
  for (; position >= static_cast<int>(device.lists[list].instructions.size()); ++list)
    position -= static_cast<int>(device.lists[list].instructions.size());
  return list;
}

const Instruction& instruction_at(const DeviceProgram& device, int position) {
  const int list = list_at(device, position);
  return device.lists[list].instructions[position - first_position(device, list)];
}

MemoryUses::MemoryUses(const DeviceProgram& device) : of_(device.buffers.size()) {
  const auto for_each_memory = [&](const Instruction& instruction, auto&& body) {
    for (const auto* buffers : {&instruction.inputs, &instruction.outputs})
      for (int buffer : *buffers) body(of_[memory_of(device, buffer)]);
  };
  const int end = num_positions(device);
  int first = 0;  // position where the list begins
  for (const InstructionList& list : device.lists) {
    int position = first;
    for (const Instruction& instruction : list.instructions) {
      for_each_memory(instruction, [&](Uses& uses) { uses.last = position; });
      for (int buffer : instruction.outputs)
        if (int& write = of_[memory_of(device, buffer)].first_write; write < 0) write = position;
      if (instruction.overlapped || instruction.kind == Instruction::Kind::send)
        for_each_memory(instruction, [&](Uses& uses) { uses.flights.push_back({position, end}); });
      if (instruction.kind == Instruction::Kind::wait &&
          awaits_result(list.instructions, instruction))
        for_each_memory(list.instructions.at(instruction.awaits), [&](Uses& uses) {
          uses.flights.push_back({first + instruction.awaits, position});
        });
      ++position;
    }
    first = position;
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

/// For InPlace::last: the number of last operands whose buffers the first results may reuse.
std::size_t num_last(const Node& node) {
  return node.attributes.contains("members")
             ? static_cast<std::size_t>(node.attributes.integer("members"))
             : 1;
}

bool may_overwrite(const DeviceProgram& device, const spmd::SpmdProgram& program,
                   const Instruction& instruction, std::size_t input, std::size_t output) {
  using Kind = Instruction::Kind;
  if (instruction.kind != Kind::compute && instruction.kind != Kind::collective &&
      instruction.kind != Kind::start)
    return false;
  const Node& node = program.graph.nodes[instruction.node];
  const InPlace allowed = in_place(node);
  const bool fits = allowed == InPlace::any || (allowed == InPlace::paired && input == output) ||
                    (allowed == InPlace::last && output < num_last(node) &&
                     input + num_last(node) == instruction.inputs.size() + output);
  return fits && device.buffers[instruction.inputs[input]].type ==
                     device.buffers[instruction.outputs[output]].type;
}

}  // namespace alpa::lower
