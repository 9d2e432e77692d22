// src/lower/take_over.cc — results in the memory of operands that die where they are made
#include "src/lower/take_over.h"

#include "src/lower/carried_memory.h"
#include "src/lower/program_facts.h"

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

class TakeOver {
 public:
  TakeOver(DeviceProgram& device, const spmd::SpmdProgram& program)
      : device_(device),
        program_(program),
        ranges_(live_ranges(device)),
        uses_(device),
        is_fixed_(device.buffers.size()),
        is_reported_(device.buffers.size()) {
    // The next micro-batch reads an accumulator again, whatever its live range says of this one.
    for (const auto* buffers : {&device.kept, &device.zeroed})
      for (int buffer : *buffers) is_fixed_[memory_of(device, buffer)] = true;
    const std::vector<bool> sends = sent(device);
    for (std::size_t b = 0; b < device.buffers.size(); ++b)
      if (sends[b] || device.buffers[b].slots > 1) is_fixed_[b] = true;
    for (const Reported& reported : device.reported)
      is_reported_[memory_of(device, reported.buffer)] = true;
    for (const Returned& returned : device.returned)
      is_reported_[memory_of(device, returned.buffer)] = true;
  }

  void run() {
    int position = 0;
    for (const InstructionList& list : device_.lists)
      for (const Instruction& instruction : list.instructions) {
        for (std::size_t o = 0; o < instruction.outputs.size(); ++o)
          take_over(instruction, o, position);
        ++position;
      }
  }

 private:
  void take_over(const Instruction& instruction, std::size_t o, int position) {
    const int result = memory_of(device_, instruction.outputs[o]);
    if (is_fixed_[result] || ranges_[result].begin != position) return;
    for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
      const int operand = memory_of(device_, instruction.inputs[i]);
      if (operand == result || is_fixed_[operand] || !dies_in(instruction, position, operand))
        continue;
      if (!may_overwrite(device_, program_, instruction, i, o) || !alone(instruction, operand, o))
        continue;
      device_.buffers[result].alias_of = operand;
      ranges_[operand].end = ranges_[result].end;
      ranges_[result] = {};
      uses_.move(result, operand);
      is_reported_[operand] = is_reported_[operand] || is_reported_[result];
      return;
    }
  }

  /// True if nothing but the instruction uses the memory from here on. A started collective's
  /// operand lives until its wait, and another instruction may read it meanwhile.
  bool dies_in(const Instruction& instruction, int position, int memory) const {
    if (instruction.kind == Kind::start)
      return !uses_.used_after(memory, position) && !is_reported_[memory];
    return ranges_[memory].end == position;
  }

  /// True if every operand in this memory may be overwritten and no other result uses it.
  bool alone(const Instruction& instruction, int memory, std::size_t o) const {
    for (std::size_t i = 0; i < instruction.inputs.size(); ++i)
      if (memory_of(device_, instruction.inputs[i]) == memory &&
          !may_overwrite(device_, program_, instruction, i, o))
        return false;
    return std::none_of(instruction.outputs.begin(), instruction.outputs.end(),
                        [&](int output) { return memory_of(device_, output) == memory; });
  }

  DeviceProgram& device_;
  const spmd::SpmdProgram& program_;
  // Facts by memory, a buffer's number:
  std::vector<LiveRange> ranges_;
  MemoryUses uses_;
  std::vector<bool> is_fixed_;  ///< state and accumulators, what is sent or has several copies
  std::vector<bool> is_reported_;
};

}  // namespace

void take_over(DeviceProgram& device, const spmd::SpmdProgram& program) {
  TakeOver(device, program).run();
}

}  // namespace alpa::lower
