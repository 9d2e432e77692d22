// src/lower/guard_sends.cc — inserts waits before instructions that would overwrite memory still
// being sent
#include "updates.h"

#include <map>

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

/// Positions of one list.
constexpr int kNowhere = -1;

/// Per list, the waits to insert before each position.
using Waits = std::vector<std::map<int, std::vector<Instruction>>>;

/// The first instruction of the list, at or after `from`, that writes the memory.
int first_write(const DeviceProgram& device, int list, int from, int memory) {
  const std::vector<Instruction>& instructions = device.lists[list].instructions;
  for (int i = from; i < static_cast<int>(instructions.size()); ++i)
    for (int buffer : instructions[i].outputs)
      if (memory_of(device, buffer) == memory) return i;
  return kNowhere;
}

/// A wait in `list` for what instruction `awaits` of `awaits_list` sends.
Instruction wait_for(const DeviceProgram& device, int list, int awaits_list, int awaits,
                     int behind) {
  Instruction wait;
  wait.kind = Kind::wait;
  wait.node = device.lists[awaits_list].instructions[awaits].node;
  wait.awaits = awaits;
  wait.awaits_list = awaits_list == list ? -1 : awaits_list;
  wait.behind = behind;
  return wait;
}

/// The send's own list rewrites the slot after as many runs as there are slots; any other list only
/// after all sends.
void guard(const DeviceProgram& device, int list, int send, Waits& waits) {
  const int memory = memory_of(device, device.lists[list].instructions[send].inputs[0]);
  const auto add = [&](int reader, int position, int behind) {
    waits[reader][position].push_back(wait_for(device, reader, list, send, behind));
  };
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l) {
    const int first = first_write(device, l, 0, memory);
    if (first == kNowhere) continue;
    if (l != list) {
      add(l, first, 0);
      continue;
    }
    if (first < send && runs_of(device, l) > 1) add(l, first, device.buffers[memory].slots - 1);
    if (const int next = first_write(device, l, send, memory); next != kNowhere) add(l, next, 0);
  }
}

/// Inserts the waits before their positions, and renumbers the instructions that waits name.
void insert(Waits waits, DeviceProgram& device) {
  std::vector<std::vector<int>> position(waits.size());
  for (std::size_t l = 0; l < waits.size(); ++l) {
    std::vector<Instruction>& instructions = device.lists[l].instructions;
    std::vector<Instruction> result;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      for (Instruction& wait : waits[l][i]) result.push_back(std::move(wait));
      position[l].push_back(static_cast<int>(result.size()));
      result.push_back(std::move(instructions[i]));
    }
    instructions = std::move(result);
  }
  for (std::size_t l = 0; l < waits.size(); ++l)
    for (Instruction& instruction : device.lists[l].instructions)
      if (instruction.kind == Kind::wait)
        instruction.awaits =
            position[instruction.awaits_list < 0 ? l : instruction.awaits_list][instruction.awaits];
}

}  // namespace

DeviceProgram guard_sends(const DeviceProgram& device) {
  Waits waits(device.lists.size());
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l)
    for (int i = 0; i < static_cast<int>(device.lists[l].instructions.size()); ++i)
      if (device.lists[l].instructions[i].kind == Kind::send) guard(device, l, i, waits);
  DeviceProgram guarded = device;
  insert(std::move(waits), guarded);
  return guarded;
}

}  // namespace alpa::lower
