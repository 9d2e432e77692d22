// src/lower/verify_schedules.cc — simulates the communication of all devices' programs
// to prove that it completes
#include <algorithm>
#include <map>
#include <tuple>

#include "alpa/base/error.h"
#include "src/lower/device_program.h"

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

/// Sender, receiver and number of a lane.
using LaneKey = std::tuple<int, int, int>;

struct LaneState {
  std::vector<const Message*> sent, received;
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
    for (const auto& [key, lane] : lanes_)
      invariant(lane.sent.size() == lane.received.size(),
                "schedules: device {} sends {} messages to device {}, who receives {}",
                std::get<0>(key), lane.sent.size(), std::get<1>(key), lane.received.size());
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
        return met(d, instruction, calls_[{d, &instruction}].back());
      case Kind::wait: return awaited(d, instruction);
      default: return true;
    }
  }

  LaneKey lane_of(int d, const Instruction& instruction) const {
    const int own = devices_[d].device, peer = instruction.message.peer;
    const bool sends = instruction.kind == Kind::send;
    return {sends ? own : peer, sends ? peer : own, instruction.message.lane};
  }

  bool hand_over(int d, const Instruction& instruction) {
    LaneState& lane = lanes_[lane_of(d, instruction)];
    const bool sends = instruction.kind == Kind::send;
    std::vector<const Message*>&own = sends ? lane.sent : lane.received,
                      &others = sends ? lane.received : lane.sent;
    const Message& message = instruction.message;
    calls_[{d, &instruction}].push_back(static_cast<int>(own.size()));
    own.push_back(&message);
    if (others.size() >= own.size()) {
      const Message& other = *others[own.size() - 1];
      invariant(other.begin == message.begin && other.extent == message.extent,
                "schedules: {} sends a box of {} at {}, but device {} expects one of {} at {}",
                place_of(d, instruction), alpa::to_string(message.extent),
                alpa::to_string(message.begin), message.peer, alpa::to_string(other.extent),
                alpa::to_string(other.begin));
    }
    return true;
  }

  /// The calls of a group are matched in order, on either thread.
  bool arrive(int d, const Instruction& instruction) {
    auto& arrivals = arrivals_[{instruction.call.group, instruction.kind == Kind::start}];
    calls_[{d, &instruction}].push_back(arrivals[devices_[d].device]++);
    return true;
  }

  bool met(int d, const Instruction& instruction, int call) {
    auto& arrivals = arrivals_[{instruction.call.group, instruction.kind == Kind::start}];
    for (int member : instruction.call.group)
      if (arrivals[member] <= call) return wait_for(d, member);
    return true;
  }

  bool awaited(int d, const Instruction& wait) {
    const std::vector<Instruction>& list =
        wait.awaits_list < 0 ? list_of(d) : devices_[d].lists[wait.awaits_list].instructions;
    const Instruction& started = list.at(wait.awaits);
    const std::vector<int>& calls = calls_[{d, &started}];
    const int call = static_cast<int>(calls.size()) - 1 - wait.behind;
    if (call < 0) return true;
    if (started.kind == Kind::start) return met(d, started, calls[call]);
    const LaneState& lane = lanes_[lane_of(d, started)];
    const std::size_t others = (started.kind == Kind::send ? lane.received : lane.sent).size();
    return others > static_cast<std::size_t>(calls[call]) || wait_for(d, started.message.peer);
  }

  bool wait_for(int d, int device) {
    cursors_[d].waits_for = device;
    return false;
  }

  std::string place_of(int d, const Instruction& instruction) const {
    return fmt::format("device {} in {} of micro-batch {} (\"{}\")", devices_[d].device,
                       devices_[d].lists[run_of(d).list].name, run_of(d).micro_batch,
                       program_.graph.nodes[instruction.node].name);
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
  std::map<std::pair<std::vector<int>, bool>, std::map<int, int>> arrivals_;
  /// Numbers, in their lane or group, of all runs of an instruction.
  std::map<std::pair<int, const Instruction*>, std::vector<int>> calls_;
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
  if (std::any_of(devices.begin(), devices.end(), communicates_between_meshes))
    Simulation(devices, program).run();
}

}  // namespace alpa::lower
