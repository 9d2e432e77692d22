// src/lower/guard_sends.cc — inserts waits before instructions that would
// overwrite memory still being sent
#include "updates.h"

#include <map>

namespace alpa {
namespace {

using Kind = Instruction::Kind;

/// Positions of one list.
constexpr int kNowhere = -1;

class Guarding {
 public:
  explicit Guarding(const DeviceProgram& device) : device_(device), waits_(device.lists.size()) {}

  DeviceProgram run() && {
    for (int l = 0; l < static_cast<int>(device_.lists.size()); ++l)
      for (int i = 0; i < static_cast<int>(instructions(l).size()); ++i)
        if (instructions(l)[i].kind == Kind::send) guard(l, i);
    insert_waits();
    return std::move(device_);
  }

 private:
  std::vector<Instruction>& instructions(int list) { return device_.lists[list].instructions; }

  /// The first instruction of the list, at or after `from`, that writes the memory.
  int first_write(int list, int from, int memory) {
    for (int i = from; i < static_cast<int>(instructions(list).size()); ++i)
      for (int buffer : instructions(list)[i].outputs)
        if (memory_of(device_, buffer) == memory) return i;
    return kNowhere;
  }

  /// The send's own list rewrites the slot after this many runs; any other
  /// list only after all sends.
  void guard(int list, int send) {
    const int memory = memory_of(device_, instructions(list)[send].inputs[0]);
    for (int l = 0; l < static_cast<int>(device_.lists.size()); ++l) {
      const int first = first_write(l, 0, memory);
      if (first == kNowhere) continue;
      if (l != list) {
        add_wait(l, first, list, send, 0);
        continue;
      }
      if (first < send && runs_of(device_, l) > 1)
        add_wait(l, first, list, send, device_.buffers[memory].slots - 1);
      if (const int next = first_write(l, send, memory); next != kNowhere)
        add_wait(l, next, list, send, 0);
    }
  }

  void add_wait(int list, int position, int awaits_list, int awaits, int behind) {
    Instruction wait;
    wait.kind = Kind::wait;
    wait.node = instructions(awaits_list)[awaits].node;
    wait.awaits = awaits;
    wait.awaits_list = awaits_list == list ? -1 : awaits_list;
    wait.behind = behind;
    waits_[list][position].push_back(std::move(wait));
  }

  /// Inserts the waits before their positions, and renumbers the instructions that waits name.
  void insert_waits() {
    std::vector<std::vector<int>> position(waits_.size());
    for (int l = 0; l < static_cast<int>(waits_.size()); ++l) {
      std::vector<Instruction> result;
      for (int i = 0; i < static_cast<int>(instructions(l).size()); ++i) {
        for (Instruction& wait : waits_[l][i]) result.push_back(std::move(wait));
        position[l].push_back(static_cast<int>(result.size()));
        result.push_back(std::move(instructions(l)[i]));
      }
      instructions(l) = std::move(result);
    }
    for (int l = 0; l < static_cast<int>(waits_.size()); ++l)
      for (Instruction& instruction : instructions(l))
        if (instruction.kind == Kind::wait)
          instruction.awaits = position[instruction.awaits_list < 0 ? l : instruction.awaits_list]
                                       [instruction.awaits];
  }

  DeviceProgram device_;
  std::vector<std::map<int, std::vector<Instruction>>> waits_;  ///< per list, by position
};

}  // namespace

DeviceProgram guard_sends(const DeviceProgram& device) { return Guarding(device).run(); }

}  // namespace alpa
