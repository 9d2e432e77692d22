// src/lower/verify_flow.cc — runs a device's schedule with names instead of numbers
#include <deque>
#include <functional>
#include <map>
#include <numeric>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/lower/verify_device.h"

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

/// Writer of content from before the first micro-batch: state and cleared accumulators.
constexpr int kInitial = -1;

/// One copy of a buffer's memory.
struct Slot {
  int buffer = -1;  ///< through which it was written; -1: never
  int micro_batch = kInitial;
  /// Boxes and collectives that write it and were not awaited.
  std::vector<const Instruction*> arriving;
  std::vector<const Instruction*> received;  ///< all boxes of its content, if it was received
  int leaving = 0;  ///< boxes and collectives that read it and were not awaited
};

std::int64_t elements_of(const Message& message) {
  return std::accumulate(message.extent.begin(), message.extent.end(), std::int64_t{1},
                         std::multiplies<>());
}

bool contains(const Message& box, const Message& part) {
  for (std::size_t d = 0; d < box.begin.size(); ++d)
    if (part.begin[d] < box.begin[d] ||
        part.begin[d] + part.extent[d] > box.begin[d] + box.extent[d])
      return false;
  return true;
}

class Flow {
 public:
  Flow(const DeviceProgram& device, const spmd::SpmdProgram& program)
      : device_(device),
        program_(program),
        graph_(program.graph),
        slots_(device.buffers.size()),
        value_of_(device.buffers.size(), -1),
        written_(device.buffers.size()),
        of_all_(device.buffers.size()),
        updated_by_(device.buffers.size(), -1),
        is_state_(device.buffers.size()),
        is_accumulator_(device.buffers.size()) {
    for (std::size_t b = 0; b < slots_.size(); ++b) slots_[b].resize(device.buffers[b].slots);
    for (std::size_t value = 0; value < graph_.values.size(); ++value)
      if (const int buffer = device.buffer_of_value[value]; buffer >= 0)
        value_of_[buffer] = static_cast<int>(value);
    for (const InstructionList& list : device.lists)
      for (const Instruction& instruction : list.instructions)
        for (int buffer : instruction.outputs) {
          written_[buffer] = true;
          if (&list == device.lists.data() && device.begins && instruction.kind != Kind::load)
            of_all_[buffer] = true;
        }
    for (const auto* lasting : {&device.kept, &device.zeroed})
      for (int buffer : *lasting) slots_[memory_of(device, buffer)][0].buffer = buffer;
    for (int buffer : device.kept) is_state_[buffer] = true;
    for (int buffer : device.zeroed) is_accumulator_[buffer] = true;
    for (const Update& update : graph_.updates)
      if (const int buffer = device.buffer_of_value[update.input]; buffer >= 0)
        updated_by_[buffer] = device.buffer_of_value[update.value];
  }

  void run() {
    for (const ListRun& run : device_.schedule) {
      list_ = run.list;
      micro_batch_ = run.micro_batch;
      const std::vector<Instruction>& list = device_.lists[list_].instructions;
      for (at_ = 0; at_ < static_cast<int>(list.size()); ++at_) step(list[at_]);
    }
    verify_end();
  }

 private:
  std::string here() const { return place_of(device_, program_, list_, at_, micro_batch_); }
  bool in_apply() const { return list_ + 1 == static_cast<int>(device_.lists.size()); }
  int last() const { return graph_.num_micro_batches - 1; }

  std::string name_of_buffer(int buffer) const {
    return value_of_[buffer] < 0 ? fmt::format("buffer {}", buffer)
                                 : fmt::format("\"{}\"", graph_.producer(value_of_[buffer]).name);
  }

  Slot& slot_of(int buffer, int micro_batch) {
    std::vector<Slot>& slots = slots_[memory_of(device_, buffer)];
    return slots[micro_batch % static_cast<int>(slots.size())];
  }

  /// The buffer whose content a view shows.
  int shown(int buffer) const {
    while (!written_[buffer] && device_.buffers[buffer].alias_of >= 0)
      buffer = device_.buffers[buffer].alias_of;
    return buffer;
  }

  bool is_empty(int buffer) const { return device_.buffers[buffer].type.elements() == 0; }

  /// The micro-batch of which a run of the current list reads the buffer.
  int expected(int buffer) const {
    if (of_all_[buffer]) return 0;
    const int value = value_of_[buffer];
    if (!in_apply() || value < 0 || find_input(graph_, value)) return micro_batch_;
    return graph_.producer(value).region == Region::apply ? 0 : last();
  }

  bool holds(const Slot& slot, int buffer) const {
    if (is_state_[buffer]) return slot.buffer == buffer && slot.micro_batch == kInitial;
    if (is_accumulator_[buffer])
      return (slot.buffer == buffer || slot.buffer == updated_by_[buffer]) &&
             slot.micro_batch == micro_batch_ - 1;
    return slot.buffer == buffer && slot.micro_batch == expected(buffer);
  }

  /// `passed_on`: of a received tensor, the only box that is read.
  void read(int given, const Message* passed_on) {
    if (is_empty(given)) return;
    const int buffer = shown(given);
    const Slot& slot = slot_of(buffer, micro_batch_);
    for (const Instruction* writer : slot.arriving)
      if (!passed_on || writer->kind != Kind::receive || boxes_meet(*passed_on, writer->message))
        bug("schedules: {} reads {} before it has arrived", here(), name_of_buffer(buffer));
    if (holds(slot, buffer)) return verify_received(slot, buffer, passed_on);
    bug("schedules: {} reads {}, but {}", here(), name_of_buffer(buffer),
        slot.buffer < 0 ? "nothing has written it"
                        : fmt::format("its memory holds {} of micro-batch {}",
                                      name_of_buffer(slot.buffer), slot.micro_batch));
  }

  /// Checks that all boxes of a received tensor were received, or the one that is passed on.
  void verify_received(const Slot& slot, int buffer, const Message* passed_on) const {
    if (slot.received.empty()) return;
    std::int64_t elements = 0;
    for (const Instruction* receive : slot.received) {
      if (passed_on && contains(receive->message, *passed_on)) return;
      elements += elements_of(receive->message);
    }
    if (passed_on || elements != device_.buffers[buffer].type.elements())
      bug("schedules: {} reads {}, of which not all was received", here(), name_of_buffer(buffer));
  }

  void write(int buffer, const Instruction* writer, bool arrives) {
    if (is_empty(buffer)) return;
    Slot& slot = slot_of(buffer, micro_batch_);
    if (slot.leaving > 0)
      bug("schedules: {} overwrites {}, which may still be in use", here(),
          name_of_buffer(slot.buffer));
    const bool same = slot.buffer == buffer && slot.micro_batch == micro_batch_;
    if (!slot.arriving.empty() && !(arrives && same))
      bug("schedules: {} overwrites {}, which has not arrived", here(),
          name_of_buffer(slot.buffer));
    slot.buffer = buffer;
    slot.micro_batch = micro_batch_;
    if (!same || writer->kind != Kind::receive) slot.received.clear();
    if (writer->kind == Kind::receive) slot.received.push_back(writer);
    if (arrives) slot.arriving.push_back(writer);
  }

  void step(const Instruction& instruction) {
    if (instruction.kind == Kind::wait) return wait(instruction);
    const bool flies = instruction.kind == Kind::send || instruction.kind == Kind::receive ||
                       instruction.kind == Kind::start;
    const bool passes_on = instruction.kind == Kind::send && instruction.message.passed_on;
    for (int buffer : instruction.inputs) read(buffer, passes_on ? &instruction.message : nullptr);
    for (int buffer : instruction.outputs) write(buffer, &instruction, flies);
    if (!flies) return;
    for (int buffer : instruction.inputs) ++slot_of(buffer, micro_batch_).leaving;
    flying_[&instruction].push_back(micro_batch_);
  }

  void wait(const Instruction& wait) {
    const Instruction& awaited =
        device_.lists[wait.awaits_list < 0 ? list_ : wait.awaits_list].instructions[wait.awaits];
    std::deque<int>& runs = flying_[&awaited];
    while (!runs.empty() &&
           (wait.behind == Instruction::kAllRuns || runs.front() <= micro_batch_ - wait.behind)) {
      for (int buffer : awaited.inputs) --slot_of(buffer, runs.front()).leaving;
      for (int buffer : awaited.outputs)
        if (!is_empty(buffer)) std::erase(slot_of(buffer, runs.front()).arriving, &awaited);
      runs.pop_front();
    }
  }

  void verify_end() {
    for (const Reported& metric : device_.reported) {
      const auto& [name, value] = graph_.metrics[metric.metric];
      const bool once = find_input(graph_, value) || graph_.producer(value).region == Region::apply;
      const int state = shown(metric.buffer);
      invariant(updated_by_[state] < 0 || updated_by_[state] == state,
                "schedules: device {}: metric \"{}\" is read from state after its update",
                device_.device, name);
      at_end(metric.buffer, name, once ? 0 : last());
    }
    for (const Returned& output : device_.returned) {
      const auto& [name, value] = graph_.outputs[output.output];
      for (int m = 0; m < runs_per_step(graph_, graph_.producer(value)); ++m)
        at_end(output.buffer, name, m);
    }
    for (int state : device_.kept) {
      const int value = updated_by_[state];
      if (value < 0 || is_empty(state)) continue;
      const Slot& slot = slots_[memory_of(device_, state)][0];
      const bool unchanged = shown(value) == state && slot.micro_batch == kInitial;
      invariant(unchanged || slot.buffer == shown(value) ||
                    (slot.buffer == state && slot.micro_batch != kInitial),
                "schedules: device {}: at the end of the step, {} is not its new content",
                device_.device, name_of_buffer(state));
    }
  }

  void at_end(int given, const std::string& name, int micro_batch) {
    if (is_empty(given)) return;
    const int buffer = shown(given);
    const Slot& slot = slot_of(buffer, micro_batch);
    invariant(
        slot.buffer == buffer && slot.arriving.empty() &&
            (is_state_[buffer] || slot.micro_batch == micro_batch),
        "schedules: device {}: at the end of the step, nothing holds \"{}\" of micro-batch {}",
        device_.device, name, micro_batch);
  }

  const DeviceProgram& device_;
  const spmd::SpmdProgram& program_;
  const Graph& graph_;
  int list_ = 0, at_ = 0, micro_batch_ = 0;  ///< where the run is
  std::vector<std::vector<Slot>> slots_;     ///< by memory
  // Facts by buffer:
  std::vector<int> value_of_;    ///< -1: none
  std::vector<bool> written_;    ///< by an instruction
  std::vector<bool> of_all_;     ///< made before the micro-batches
  std::vector<int> updated_by_;  ///< of state and accumulators: the buffer of the new content
  std::vector<bool> is_state_, is_accumulator_;
  /// Runs of sends, receives and starts that were not awaited: their micro-batches.
  std::map<const Instruction*, std::deque<int>> flying_;
};

}  // namespace

void verify_flow(const DeviceProgram& device, const spmd::SpmdProgram& program) {
  Flow(device, program).run();
}

}  // namespace alpa::lower
