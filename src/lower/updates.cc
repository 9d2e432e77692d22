// src/lower/updates.cc — ends emission: writes updates into their state, saves what metrics
// report of it before
#include "updates.h"

#include <algorithm>

#include "alpa/base/error.h"

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

class Updating {
 public:
  Updating(const DeviceProgram& device, const spmd::SpmdProgram& program)
      : device_(device),
        program_(program),
        uses_(device),
        is_input_(device.buffers.size()),
        is_state_(device.buffers.size()),
        read_at_end_(device.buffers.size()) {
    for (const Input& input : program.graph.inputs)
      if (device_.buffer_of_value[input.value] >= 0) is_input_[memory(input.value)] = true;
    for (const auto* buffers : {&device_.kept, &device_.zeroed})
      for (int buffer : *buffers) is_state_[memory_of(device_, buffer)] = true;
  }

  DeviceProgram run() && {
    save_reported();
    std::vector<Copy> copies;
    for (const Update& update : program_.graph.updates) {
      if (!program_.same_devices(program_.mesh_index(update.value), device_.mesh)) continue;
      const bool from_input = is_input_[memory(update.value)];
      if (from_input && memory(update.value) != memory(update.input))
        read_at_end_[memory(update.value)] = true;
      copies.push_back({&update, from_input, list_of(update, from_input),
                        device_.buffer_of_value[update.value]});
    }
    copies.erase(std::remove_if(copies.begin(), copies.end(),
                                [&](const Copy& copy) { return settled(*copy.update); }),
                 copies.end());
    for (const Copy& copy : copies) awaits_copy(memory(copy.update->value));
    // Content of another input is saved first, because earlier copies may replace that input.
    for (Copy& copy : copies)
      if (copy.from_input) copy.from = saved(copy.from, *copy.update, copy.list);
    for (const Copy& copy : copies)
      add_copy(*copy.update, copy.list, copy.from, device_.buffer_of_value[copy.update->input]);
    return std::move(device_);
  }

 private:
  /// An update that was not settled by an alias.
  struct Copy {
    const Update* update;
    bool from_input;  ///< the new content is that of a graph input
    int list;         ///< at whose end it takes effect
    int from;         ///< the buffer of the new content
  };

  int memory(int value) const {
    const int buffer = device_.buffer_of_value[value];
    invariant(buffer >= 0, "emit: value {} has no buffer", value);
    return memory_of(device_, buffer);
  }

  const Instruction& at(int position) const { return instruction_at(device_, position); }

  bool touches(const std::vector<int>& buffers, int memory) const {
    return std::any_of(buffers.begin(), buffers.end(),
                       [&](int buffer) { return memory_of(device_, buffer) == memory; });
  }

  /// Places the new content's buffer in the state's memory if possible; false if it must be copied.
  bool settled(const Update& update) {
    const int state = memory(update.input), value = memory(update.value);
    if (state == value) return true;
    if (is_input_[value] || is_state_[value] || device_.buffers[value].slots > 1) return false;
    if (device_.buffers[value].type.bytes() == 0) return true;
    const int made = uses_.first_write(value);
    if (made < 0 || !runs_in_the_same_list(update, made) || used_from(state, made)) return false;
    if (touches(at(made).inputs, state) && !overwrites(at(made), state, value)) return false;
    device_.buffers[value].alias_of = state;
    uses_.move(value, state);
    return true;
  }

  /// State is replaced once per step, accumulators once per micro-batch.
  bool runs_in_the_same_list(const Update& update, int position) const {
    return runs_of(device_, list_at(device_, position)) == 1 || accumulates(update);
  }

  bool accumulates(const Update& update) const {
    return find_input(program_.graph, update.input)->kind == InputKind::accumulator;
  }

  bool used_from(int memory, int position) const {
    return read_at_end_[memory] || uses_.used_after(memory, position);
  }

  /// True if the instruction may write the new content over the old one,
  /// whichever operands hold that.
  bool overwrites(const Instruction& instruction, int state, int value) const {
    for (std::size_t o = 0; o < instruction.outputs.size(); ++o) {
      if (memory_of(device_, instruction.outputs[o]) != value) continue;
      for (std::size_t i = 0; i < instruction.inputs.size(); ++i)
        if (memory_of(device_, instruction.inputs[i]) == state &&
            !may_overwrite(device_, program_, instruction, i, o))
          return false;
    }
    return true;
  }

  /// The instruction that writes this memory must not be overlapped, because a copy
  /// at the list's end reads it.
  void awaits_copy(int memory) {
    const int made = uses_.first_write(memory);
    if (made < 0) return;
    const int list = list_at(device_, made);
    device_.lists[list].instructions[made - first_position(device_, list)].overlapped = false;
  }

  /// A metric that is state reports what it was before its update: a copy is made first.
  void save_reported() {
    for (const Update& update : program_.graph.updates) {
      if (update.input == update.value || device_.buffer_of_value[update.input] < 0) continue;
      const int state = memory(update.input);
      for (Reported& metric : device_.reported) {
        if (memory_of(device_, metric.buffer) != state) continue;
        metric.buffer = saved(metric.buffer, update, static_cast<int>(device_.lists.size()) - 1);
        read_at_end_[state] = true;
      }
    }
  }

  /// A new buffer with what buffer `from` holds before the copies of updates.
  int saved(int from, const Update& update, int list) {
    Buffer buffer = device_.buffers[from];
    buffer.alias_of = -1;
    device_.buffers.push_back(std::move(buffer));
    const int to = static_cast<int>(device_.buffers.size()) - 1;
    add_copy(update, list, from, to);
    return to;
  }

  /// State changes in "apply", an accumulator in the list that makes its new content.
  int list_of(const Update& update, bool from_input) const {
    if (!accumulates(update)) return static_cast<int>(device_.lists.size()) - 1;
    const int made = from_input ? -1 : uses_.first_write(memory(update.value));
    return made < 0 ? 0 : list_at(device_, made);
  }

  void add_copy(const Update& update, int list, int from, int to) {
    device_.lists[list].instructions.push_back(
        {.kind = Kind::copy,
         .node = program_.graph.values[update.input].producer,
         .inputs = {from},
         .outputs = {to}});
  }

  DeviceProgram device_;
  const spmd::SpmdProgram& program_;
  MemoryUses uses_;
  // Facts by memory, a buffer's number:
  std::vector<bool> is_input_;     ///< of the graph
  std::vector<bool> is_state_;     ///< state and accumulators
  std::vector<bool> read_at_end_;  ///< copies will read it
};

}  // namespace

DeviceProgram with_updates(const DeviceProgram& device, const spmd::SpmdProgram& program) {
  return Updating(device, program).run();
}

}  // namespace alpa::lower
