// src/cuda/segments.cc — splits lists into segments for capture, at messages between meshes
#include "segments.h"

#include <algorithm>
#include <map>
#include <utility>

#include "alpa/base/error.h"

namespace alpa::cuda {
namespace {

using Kind = lower::Instruction::Kind;

/// Walks the lists of all devices as far as each gets without a message, again and again.
class SegmentWalk {
 public:
  SegmentWalk(const std::vector<const lower::DeviceProgram*>& devices, int list)
      : devices_(devices), list_(list), cursors_(devices.size()) {}

  bool at_end() const {
    for (std::size_t d = 0; d < devices_.size(); ++d)
      if (!at_end(d)) return false;
    return true;
  }

  Segment next() {
    const std::size_t n = devices_.size();
    Segment segment{std::vector<std::vector<int>>(n), std::vector<std::vector<int>>(n)};
    bool any = false;
    for (std::size_t d = 0; d < n; ++d)
      for (; !at_end(d) && is_message(*devices_[d], list_, at(d)); any = true)
        segment.messages[d].push_back(cursors_[d].at++);
    for (bool moved = true; moved; any = any || moved) {
      moved = false;
      for (std::size_t d = 0; d < n; ++d)
        for (; !at_end(d) && passes(d); moved = true) segment.work[d].push_back(cursors_[d].at++);
    }
    invariant(any || at_end(),
              "the devices' programs deadlock: each waits for another in a collective");
    return segment;
  }

 private:
  /// Collectives of one group on one kind of stream. Counts how many each member has reached.
  using Group = std::pair<std::vector<int>, bool>;
  struct Cursor {
    int at = 0;
    int number = -1;  ///< number, within the group, of the collective it has reached; -1: none
  };

  const std::vector<lower::Instruction>& instructions(std::size_t d) const {
    return devices_[d]->lists[list_].instructions;
  }
  bool at_end(std::size_t d) const {
    return cursors_[d].at == static_cast<int>(instructions(d).size());
  }
  const lower::Instruction& at(std::size_t d) const { return instructions(d)[cursors_[d].at]; }

  static Group group_of(const lower::Instruction& instruction) {
    return {instruction.call.group, instruction.kind == Kind::start};
  }

  /// True if all members of the instruction's group that are here have reached the collective of
  /// this number.
  bool has_met(const lower::Instruction& instruction, int number) {
    std::map<int, int>& arrivals = arrivals_[group_of(instruction)];
    return std::all_of(instruction.call.group.begin(), instruction.call.group.end(),
                       [&](int member) { return !is_here(member) || arrivals[member] > number; });
  }

  bool is_here(int device) const {
    return std::any_of(devices_.begin(), devices_.end(),
                       [&](const auto* known) { return known->device == device; });
  }

  /// True if the device gets past its instruction. A collective belongs to one segment, also if it
  /// starts there and others need not wait.
  bool passes(std::size_t d) {
    const lower::Instruction& instruction = at(d);
    if (is_message(*devices_[d], list_, instruction)) return false;
    if (instruction.kind != Kind::collective && instruction.kind != Kind::start) return true;
    int& number = cursors_[d].number;
    if (number < 0) number = arrivals_[group_of(instruction)][devices_[d]->device]++;
    if (!has_met(instruction, number)) return false;
    number = -1;
    return true;
  }

  const std::vector<const lower::DeviceProgram*>& devices_;
  const int list_;
  std::vector<Cursor> cursors_;
  std::map<Group, std::map<int, int>> arrivals_;  ///< per member
};

/// A stretch of a device's arena.
struct Stretch {
  std::int64_t begin, end;
};

/// Bytes of the arena that hold all copies of a buffer.
Stretch stretch_of(const lower::DeviceProgram& device, int buffer) {
  const lower::Buffer& b = device.buffers[buffer];
  return {b.arena_offset, b.arena_offset + (b.slots - 1) * b.slot_bytes + b.type.bytes()};
}

std::vector<Stretch> touched_by(const lower::DeviceProgram& device,
                                const lower::Instruction& instruction) {
  std::vector<Stretch> touched;
  for (const auto* buffers : {&instruction.inputs, &instruction.outputs})
    for (const int buffer : *buffers) touched.push_back(stretch_of(device, buffer));
  if (instruction.workspace >= 0) touched.push_back(stretch_of(device, instruction.workspace));
  return touched;
}

/// True if a message may be written while `work` runs, which comes before it in the list.
bool may_come_early(const lower::DeviceProgram& device, const std::vector<lower::Instruction>& list,
                    const std::vector<int>& work, const lower::Instruction& receive) {
  const std::vector<Stretch> written = touched_by(device, receive);
  for (const int position : work) {
    const bool waits = list[position].kind == Kind::wait;
    for (const Stretch& used : touched_by(device, list[waits ? list[position].awaits : position]))
      for (const Stretch& w : written)
        if (w.begin < used.end && used.begin < w.end) return false;
  }
  return true;
}

/// True if the segment has messages and each device's may be moved before `work`.
bool may_come_early(const std::vector<const lower::DeviceProgram*>& devices, int list,
                    const Segment& segment, const std::vector<std::vector<int>>& work) {
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::vector<lower::Instruction>& instructions = devices[d]->lists[list].instructions;
    for (const int position : segment.messages[d]) {
      const lower::Instruction& message = instructions[position];
      if (message.kind == Kind::send ||
          (message.kind == Kind::receive &&
           !may_come_early(*devices[d], instructions, work[d], message)))
        return false;
    }
  }
  return true;
}

bool only_sends(const std::vector<const lower::DeviceProgram*>& devices, int list,
                const Segment& segment) {
  for (std::size_t d = 0; d < devices.size(); ++d)
    for (const int position : segment.messages[d])
      if (devices[d]->lists[list].instructions[position].kind != Kind::send) return false;
  return true;
}

void append(std::vector<std::vector<int>>& to, const std::vector<std::vector<int>>& more) {
  for (std::size_t d = 0; d < to.size(); ++d)
    to[d].insert(to[d].end(), more[d].begin(), more[d].end());
}

bool is_empty(const std::vector<std::vector<int>>& positions) {
  return std::all_of(positions.begin(), positions.end(), [](const auto& of) { return of.empty(); });
}

/// Merges segments. Sends after the first one's work move after the second one's work, before other
/// messages there. Waits and receives of the second one move before the first one's work.
std::vector<Segment> joined(const std::vector<const lower::DeviceProgram*>& devices, int list,
                            const std::vector<Segment>& segments) {
  std::vector<Segment> result;
  // that move after the work of the last segment
  std::vector<std::vector<int>> sends(devices.size());
  for (const Segment& segment : segments) {
    const bool first = result.empty();
    if (!first && is_empty(sends) && may_come_early(devices, list, segment, result.back().work)) {
      append(result.back().messages, segment.messages);
      append(result.back().work, segment.work);
    } else if (!first && only_sends(devices, list, segment)) {
      append(sends, segment.messages);
      append(result.back().work, segment.work);
    } else {
      result.push_back(
          {std::exchange(sends, std::vector<std::vector<int>>(devices.size())), segment.work});
      append(result.back().messages, segment.messages);
    }
  }
  if (!is_empty(sends)) result.push_back({sends, std::vector<std::vector<int>>(devices.size())});
  return result;
}

}  // namespace

bool is_message(const lower::DeviceProgram& device, int list,
                const lower::Instruction& instruction) {
  if (instruction.kind == Kind::send || instruction.kind == Kind::receive) return true;
  if (instruction.kind != Kind::wait) return false;
  const int of = instruction.awaits_list < 0 ? list : instruction.awaits_list;
  return device.lists[of].instructions[instruction.awaits].kind != Kind::start;
}

std::vector<Segment> segments_of(const std::vector<const lower::DeviceProgram*>& devices, int list,
                                 bool few) {
  std::vector<Segment> segments;
  SegmentWalk walk(devices, list);
  do segments.push_back(walk.next());
  while (!walk.at_end());
  return few ? joined(devices, list, segments) : segments;
}

}  // namespace alpa::cuda
