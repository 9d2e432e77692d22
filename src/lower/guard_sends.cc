// src/lower/guard_sends.cc — inserts waits before instructions that would overwrite memory still
// being sent
#include "updates.h"

#include <algorithm>
#include <map>
#include <optional>

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
  return {.kind = Kind::wait,
          .node = device.lists[awaits_list].instructions[awaits].node,
          .awaits = awaits,
          .awaits_list = awaits_list == list ? -1 : awaits_list,
          .behind = behind};
}

/// Instruction `at` of a list.
struct ListPosition {
  int list = 0, at = 0;
};

/// Which sends a writer of the memory waits for, as Instruction::behind: of the micro-batches whose
/// slot it writes, the latest that was sent before. nullopt: none ever was.
std::optional<int> sent_before(const DeviceProgram& device, ListPosition writer, ListPosition send,
                               int slots) {
  std::vector<int> sent;  // micro-batches
  std::optional<int> least;
  for (const ListRun& run : device.schedule) {
    if (run.list == send.list && writer.list == send.list && send.at < writer.at)
      sent.push_back(run.micro_batch);
    if (run.list == writer.list)
      for (int micro_batch : sent)
        if ((micro_batch - run.micro_batch) % slots == 0)
          least = std::min(least.value_or(run.micro_batch), run.micro_batch - micro_batch);
    if (run.list == send.list && !(writer.list == send.list && send.at < writer.at))
      sent.push_back(run.micro_batch);
  }
  const bool once = runs_of(device, writer.list) == 1 && runs_of(device, send.list) > 1;
  return least && (once || *least < 0) ? Instruction::kAllRuns : least;
}

/// Waits for the send before each instruction that writes its memory next.
void guard(const DeviceProgram& device, ListPosition send, Waits& waits) {
  const int memory = memory_of(device, device.lists[send.list].instructions[send.at].inputs[0]);
  const auto add = [&](ListPosition writer) {
    if (writer.at == kNowhere) return;
    if (const auto behind = sent_before(device, writer, send, device.buffers[memory].slots))
      waits[writer.list][writer.at].push_back(
          wait_for(device, writer.list, send.list, send.at, *behind));
  };
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l) {
    const int first = first_write(device, l, 0, memory);
    if (l != send.list || first < send.at) add({l, first});
    if (l == send.list) add({l, first_write(device, l, send.at, memory)});
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
      if (device.lists[l].instructions[i].kind == Kind::send) guard(device, {l, i}, waits);
  DeviceProgram guarded = device;
  insert(std::move(waits), guarded);
  return guarded;
}

}  // namespace alpa::lower
