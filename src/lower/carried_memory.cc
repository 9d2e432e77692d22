// src/lower/carried_memory.cc — finds memory that one run writes and a later run
// reads, and the slots it needs
#include "src/lower/carried_memory.h"

#include <algorithm>
#include <map>
#include <set>

namespace alpa::lower {
namespace {

/// First access of a list to a memory.
enum class First : std::uint8_t { none, read, write };

std::vector<First> first_touches(const DeviceProgram& device, const InstructionList& list) {
  std::vector<First> first(device.buffers.size(), First::none);
  const auto touch = [&](const std::vector<int>& buffers, First how) {
    for (int buffer : buffers)
      if (First& known = first[memory_of(device, buffer)]; known == First::none) known = how;
  };
  for (const Instruction& instruction : list.instructions) {
    touch(instruction.inputs, First::read);
    touch(instruction.outputs, First::write);
  }
  return first;
}

/// Runs of the schedule from the first to the last that concern one micro-batch of the lists.
struct Window {
  int begin = -1, end = -1;
};

std::map<int, Window> windows_of(const DeviceProgram& device, const std::vector<int>& lists) {
  std::map<int, Window> windows;
  for (int r = 0; r < static_cast<int>(device.schedule.size()); ++r) {
    const ListRun& run = device.schedule[r];
    if (std::find(lists.begin(), lists.end(), run.list) == lists.end()) continue;
    Window& window = windows[run.micro_batch];
    if (window.begin < 0) window.begin = r;
    window.end = r;
  }
  return windows;
}

bool collide(const std::map<int, Window>& windows, int slots) {
  std::vector<int> free_from(slots, -1);  // by slot: the run after which nobody reads it
  for (const auto& [micro_batch, window] : windows) {
    int& busy = free_from[micro_batch % slots];
    if (window.begin <= busy) return true;
    busy = window.end;
  }
  return false;
}

/// Memory passed on by lists that run once has one copy, that of the last micro-batch.
int slots_of(const DeviceProgram& device, std::vector<int> lists) {
  std::erase_if(lists, [&](int list) { return runs_of(device, list) == 1; });
  const std::map<int, Window> windows = windows_of(device, lists);
  int slots = 1;
  while (collide(windows, slots)) ++slots;
  return slots;
}

std::vector<int> lists_beside(const DeviceProgram& device, const std::vector<int>& lists) {
  std::set<int> beside;
  for (const auto& [micro_batch, window] : windows_of(device, lists))
    for (int r = window.begin + 1; r < window.end; ++r) beside.insert(device.schedule[r].list);
  return {beside.begin(), beside.end()};
}

}  // namespace

std::vector<CarriedMemory> carried_memory(const DeviceProgram& device) {
  std::vector<CarriedMemory> result(device.buffers.size());
  if (device.lists.size() < 2) return result;
  std::vector<bool> read_first(device.buffers.size());
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l) {
    const std::vector<First> first = first_touches(device, device.lists[l]);
    for (std::size_t b = 0; b < first.size(); ++b) {
      if (first[b] != First::none) result[b].lists.push_back(l);
      if (first[b] == First::read) read_first[b] = true;
    }
  }
  for (const auto* lying : {&device.kept, &device.zeroed})
    for (int buffer : *lying) read_first[memory_of(device, buffer)] = false;
  std::map<std::vector<int>, CarriedMemory> known;
  for (std::size_t b = 0; b < result.size(); ++b) {
    std::vector<int> lists = std::move(result[b].lists);
    result[b].lists.clear();
    if (!read_first[b] || lists.size() < 2) continue;
    const auto [entry, fresh] = known.try_emplace(lists);
    if (fresh && device.begins && lists.front() == 0)
      entry->second = {lists, 1, {}, true};
    else if (fresh)
      entry->second = {lists, slots_of(device, lists), lists_beside(device, lists), false};
    result[b] = entry->second;
  }
  return result;
}

std::vector<bool> sent(const DeviceProgram& device) {
  std::vector<bool> sent(device.buffers.size());
  for (const InstructionList& list : device.lists)
    for (const Instruction& instruction : list.instructions)
      if (instruction.kind == Instruction::Kind::send)
        sent[memory_of(device, instruction.inputs[0])] = true;
  return sent;
}

}  // namespace alpa::lower
