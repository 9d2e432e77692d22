// src/lower/verify_schedules.cc — simulates the communication of all devices' programs to
// prove that it completes
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "alpa/base/error.h"
#include "src/lower/verify_device.h"

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

/// Sender, receiver and number of a lane.
using LaneKey = std::tuple<int, int, int>;

/// A message or call, and the run that made it.
struct Posted {
  const Instruction* instruction = nullptr;
  int device = -1;  ///< index
  ListRun run;
};

struct LaneState {
  std::vector<Posted> sent, received;
};

/// A device's position, and the device it waits for there; -1: none.
struct Cursor {
  std::size_t run = 0, at = 0;
  bool arrived = false;  ///< at the collective there
  int waits_for = -1;
};

class Simulation {
 public:
  Simulation(std::span<const DeviceProgram> devices, const spmd::SpmdProgram& program)
      : devices_(devices), program_(program), cursors_(devices.size()) {
    for (std::size_t d = 0; d < devices.size(); ++d)
      index_[devices[d].device] = static_cast<int>(d);
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int d = 0; d < static_cast<int>(devices_.size()); ++d) moved = advance(d) || moved;
    }
    for (int d = 0; d < static_cast<int>(devices_.size()); ++d)
      if (!at_end(d)) bug("schedules: {}", waiting_chain(d));
    for (const auto& [key, lane] : lanes_) verify_matched(lane);
  }

 private:
  bool at_end(int d) const { return cursors_[d].run == devices_[d].schedule.size(); }
  const ListRun& run_of(int d) const { return devices_[d].schedule[cursors_[d].run]; }
  const std::vector<Instruction>& list_of(int d) const {
    return devices_[d].lists[run_of(d).list].instructions;
  }

  /// Runs the device until it waits. Returns true if it made progress.
  bool advance(int d) {
    Cursor& cursor = cursors_[d];
    bool moved = false;
    while (!at_end(d)) {
      if (cursor.at == list_of(d).size()) {
        ++cursor.run;
        cursor.at = 0;
      } else {
        const bool arrived = cursor.arrived;
        if (!pass(d, list_of(d)[cursor.at])) return moved || arrived != cursor.arrived;
        cursor.arrived = false;
        ++cursor.at;
      }
      moved = true;
    }
    return moved;
  }

  bool pass(int d, const Instruction& instruction) {
    switch (instruction.kind) {
      case Kind::send:
      case Kind::receive: return hand_over(d, instruction);
      case Kind::start: return arrive(d, instruction);
      case Kind::collective:
        if (!cursors_[d].arrived) arrive(d, instruction);
        cursors_[d].arrived = true;
        return met(d, instruction, calls_[{d, &instruction}].back().number);
      case Kind::wait: return awaited(d, instruction);
      default: return true;
    }
  }

  void verify_matched(const LaneState& lane) const {
    const std::size_t matched = std::min(lane.sent.size(), lane.received.size());
    if (lane.sent.size() > matched)
      bug("schedules: {} sends a message that device {} does not receive",
          place_of(lane.sent[matched]), lane.sent[matched].instruction->message.peer);
    if (lane.received.size() > matched)
      bug("schedules: {} receives a message that device {} does not send",
          place_of(lane.received[matched]), lane.received[matched].instruction->message.peer);
  }

  Posted posted(int d, const Instruction& instruction) const {
    return {&instruction, d, run_of(d)};
  }

  LaneKey lane_of(int d, const Instruction& instruction) const {
    const int own = devices_[d].device, peer = instruction.message.peer;
    const bool sends = instruction.kind == Kind::send;
    return {sends ? own : peer, sends ? peer : own, instruction.message.lane};
  }

  bool hand_over(int d, const Instruction& instruction) {
    LaneState& lane = lanes_[lane_of(d, instruction)];
    const bool sends = instruction.kind == Kind::send;
    std::vector<Posted>&own = sends ? lane.sent : lane.received,
    &others = sends ? lane.received : lane.sent;
    calls_[{d, &instruction}].push_back({run_of(d).micro_batch, static_cast<int>(own.size())});
    own.push_back(posted(d, instruction));
    if (others.size() >= own.size()) {
      const Posted& other = others[own.size() - 1];
      verify_pair(sends ? own.back() : other, sends ? other : own.back());
    }
    return true;
  }

  void verify_pair(const Posted& sent, const Posted& received) const {
    const Message &from = sent.instruction->message, &to = received.instruction->message;
    if (sent.instruction->node != received.instruction->node)
      bug("schedules: {} sends to {}, which expects another value", place_of(sent),
          place_of(received));
    if (from.begin != to.begin || from.extent != to.extent)
      bug("schedules: {} sends a box of {} at {}, but device {} expects one of {} at {}",
          place_of(sent), alpa::to_string(from.extent), alpa::to_string(from.begin), from.peer,
          alpa::to_string(to.extent), alpa::to_string(to.begin));
  }

  using Arrivals = std::map<int, std::vector<Posted>>;  ///< by device id

  Arrivals& arrivals_of(const Instruction& instruction) {
    return arrivals_[{instruction.call.group, instruction.kind == Kind::start}];
  }

  /// The calls of a group are matched in order, on either thread.
  bool arrive(int d, const Instruction& instruction) {
    Arrivals& arrivals = arrivals_of(instruction);
    std::vector<Posted>& own = arrivals[devices_[d].device];
    const std::size_t call = own.size();
    calls_[{d, &instruction}].push_back({run_of(d).micro_batch, static_cast<int>(call)});
    own.push_back(posted(d, instruction));
    for (const auto& [member, calls] : arrivals)
      if (calls.size() > call) verify_same_call(own[call], calls[call]);
    return true;
  }

  void verify_same_call(const Posted& a, const Posted& b) const {
    const CollectiveCall &call = a.instruction->call, &other = b.instruction->call;
    if (a.instruction->node != b.instruction->node || call.kind != other.kind ||
        call.combiner != other.combiner || call.dims != other.dims ||
        call.from_dim != other.from_dim)
      bug("schedules: {} and {} meet in one call of their group, but differ", place_of(a),
          place_of(b));
  }

  bool met(int d, const Instruction& instruction, int call) {
    Arrivals& arrivals = arrivals_of(instruction);
    for (int member : instruction.call.group)
      if (static_cast<int>(arrivals[member].size()) <= call) return wait_for(d, member);
    return true;
  }

  bool awaited(int d, const Instruction& wait) {
    const std::vector<Instruction>& list =
        wait.awaits_list < 0 ? list_of(d) : devices_[d].lists[wait.awaits_list].instructions;
    const auto flies = [](Kind kind) {
      return kind == Kind::send || kind == Kind::receive || kind == Kind::start;
    };
    if (wait.awaits < 0 || wait.awaits >= static_cast<int>(list.size()) ||
        !flies(list[wait.awaits].kind))
      bug("schedules: {} waits for instruction {}, which starts nothing", place_of(d, wait),
          wait.awaits);
    const Instruction& started = list[wait.awaits];
    const std::optional<int> call = awaited_call(d, wait, calls_[{d, &started}]);
    if (!call) return true;
    if (started.kind == Kind::start) return met(d, started, *call);
    const LaneState& lane = lanes_[lane_of(d, started)];
    const std::size_t others = (started.kind == Kind::send ? lane.received : lane.sent).size();
    return others > static_cast<std::size_t>(*call) || wait_for(d, started.message.peer);
  }

  /// A run of an instruction, and its number in the lane or group.
  struct Call {
    int micro_batch = 0, number = 0;
  };

  std::optional<int> awaited_call(int d, const Instruction& wait,
                                  const std::vector<Call>& calls) const {
    if (wait.behind == Instruction::kAllRuns)
      return calls.empty() ? std::nullopt : std::optional(calls.back().number);
    const int micro_batch = run_of(d).micro_batch - wait.behind;
    if (micro_batch < 0) return std::nullopt;
    for (const Call& call : calls)
      if (call.micro_batch == micro_batch) return call.number;
    bug("schedules: {} waits for instruction {} of micro-batch {}, which comes later",
        place_of(d, wait), wait.awaits, micro_batch);
  }

  bool wait_for(int d, int device) {
    cursors_[d].waits_for = device;
    return false;
  }

  std::string place_of(const Posted& posted) const {
    const DeviceProgram& device = devices_[posted.device];
    const Instruction* first = device.lists[posted.run.list].instructions.data();
    return lower::place_of(device, program_, posted.run.list,
                           static_cast<int>(posted.instruction - first), posted.run.micro_batch);
  }

  std::string place_of(int d, const Instruction& instruction) const {
    return place_of(posted(d, instruction));
  }

  /// The chain of waiting devices from device `d`, until one repeats or has finished.
  std::string waiting_chain(int d) const {
    std::string text;
    std::vector<bool> named(devices_.size());
    while (!at_end(d) && !named[d]) {
      named[d] = true;
      text += fmt::format("{}{} waits for device {}", text.empty() ? "" : ", ",
                          place_of(d, list_of(d)[cursors_[d].at]), cursors_[d].waits_for);
      const auto next = index_.find(cursors_[d].waits_for);
      if (next == index_.end()) return text + ", which is not there";
      d = next->second;
    }
    return at_end(d) ? text + ", which is at its end" : text;
  }

  std::span<const DeviceProgram> devices_;
  const spmd::SpmdProgram& program_;
  std::vector<Cursor> cursors_;
  std::map<int, int> index_;  ///< by device id
  std::map<LaneKey, LaneState> lanes_;
  /// by group and thread
  std::map<std::pair<std::vector<int>, bool>, Arrivals> arrivals_;
  /// Numbers, in their lane or group, of all runs of an instruction.
  std::map<std::pair<int, const Instruction*>, std::vector<Call>> calls_;
};

bool communicates_between_meshes(const DeviceProgram& device) {
  for (const InstructionList& list : device.lists)
    for (const Instruction& instruction : list.instructions)
      if (instruction.kind == Kind::send || instruction.kind == Kind::receive) return true;
  return false;
}

}  // namespace

void verify_schedules(std::span<const DeviceProgram> devices, const spmd::SpmdProgram& program) {
  // Devices of one mesh run the same lists in the same order.
  if (std::none_of(devices.begin(), devices.end(), communicates_between_meshes)) return;
  Simulation(devices, program).run();
  const Messages messages(program);
  for (const DeviceProgram& device : devices) {
    verify_contents(device, program, messages);
    verify_flow(device, program);
  }
}

}  // namespace alpa::lower
