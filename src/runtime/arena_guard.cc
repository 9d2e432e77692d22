// src/runtime/arena_guard.cc — checks guard bytes after every instruction, and poisons dead
// memory under AddressSanitizer
#include "arena_guard.h"

#include <algorithm>

#include "alpa/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace alpa::runtime {
namespace {

constexpr std::byte kGuard{0xc5};

/// Guard bytes are poisoned for all other code.
__attribute__((no_sanitize_address)) void write_guard(std::byte* at, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i) const_cast<volatile std::byte*>(at)[i] = kGuard;
}

/// Index of the first byte that is not as it was; `bytes` if all are.
__attribute__((no_sanitize_address)) std::int64_t first_changed(const std::byte* at,
                                                                std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i)
    if (at[i] != kGuard) return i;
  return bytes;
}

}  // namespace

void mark_alive([[maybe_unused]] const std::byte* memory, [[maybe_unused]] std::int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#endif
}

void mark_dead([[maybe_unused]] const std::byte* memory, [[maybe_unused]] std::int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(memory, bytes);
#endif
}

ArenaGuard::ArenaGuard(const lower::DeviceProgram& device) : device_(device) {
  if (device.guard_bytes == 0) return;
  const int positions = lower::num_positions(device);
  points_.resize(positions);
  const std::vector<lower::LiveRange> ranges = lower::live_ranges(device);
  std::vector<bool> passing(ranges.size());  // lives for part of a step
  for (int b = 0; b < static_cast<int>(ranges.size()); ++b) {
    if (ranges[b].empty() || device.buffers[b].type.bytes() == 0) continue;
    passing[b] = ranges[b].begin >= 0;
    if (!passing[b])
      always_.push_back(all_slots_of(b));
    else if (ranges[b].end < positions)
      points_[ranges[b].end].dying.push_back(all_slots_of(b));
  }
  mark_births(passing);
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l)
    watch_ends(device.lists[l].instructions, lower::first_position(device, l));
}

/// Any run may have ended the life of these memories, or of others in their place, before a list
/// that uses them: what one list passes to another may share bytes with lists that never run
/// between the two.
void ArenaGuard::mark_births(const std::vector<bool>& memories) {
  int position = 0;
  for (const lower::InstructionList& list : device_.lists) {
    std::vector<bool> unborn = memories;
    for (const lower::Instruction& instruction : list.instructions) {
      const auto touch = [&](int buffer) {
        const int memory = lower::memory_of(device_, buffer);
        if (unborn[memory]) points_[position].born.push_back(all_slots_of(memory));
        unborn[memory] = false;
      };
      std::for_each(instruction.inputs.begin(), instruction.inputs.end(), touch);
      std::for_each(instruction.outputs.begin(), instruction.outputs.end(), touch);
      if (instruction.workspace >= 0) touch(instruction.workspace);
      ++position;
    }
  }
}

ArenaGuard::Stretch ArenaGuard::memory_at(int buffer) const {
  const lower::Buffer& owner = device_.buffers[lower::memory_of(device_, buffer)];
  return {owner.arena_offset, owner.type.bytes(), buffer, owner.slots, owner.slot_bytes};
}

ArenaGuard::Stretch ArenaGuard::all_slots_of(int buffer) const {
  Stretch memory = memory_at(buffer);
  memory.bytes += (memory.slots - 1) * memory.slot_bytes;
  return memory;
}

/// The guard bytes of what an instruction writes.
std::vector<ArenaGuard::Stretch> ArenaGuard::ends_of(const lower::Instruction& instruction) const {
  std::vector<int> buffers = instruction.outputs;
  if (instruction.workspace >= 0) buffers.push_back(instruction.workspace);
  std::vector<Stretch> ends;
  for (int buffer : buffers) {
    const Stretch memory = memory_at(buffer);
    if (memory.bytes > 0)
      ends.push_back({memory.offset + memory.bytes, device_.guard_bytes, buffer, memory.slots,
                      memory.slot_bytes});
  }
  return ends;
}

/// A started collective writes until its wait, as does a message that is received.
void ArenaGuard::watch_ends(const std::vector<lower::Instruction>& list, int first) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    Point& point = points_[first + i];
    using Kind = lower::Instruction::Kind;
    const bool waits = list[i].kind == Kind::wait && list[i].awaits_list < 0;
    point.written = ends_of(list[i]);
    if (list[i].kind != Kind::start && list[i].kind != Kind::receive)
      point.checked = waits ? ends_of(list[list[i].awaits]) : point.written;
  }
}

void ArenaGuard::begin_step(std::byte* arena) const {
  if (points_.empty()) return;
  mark_dead(arena, device_.arena_bytes);
  for (const Stretch& stretch : always_) mark_alive(arena + stretch.offset, stretch.bytes);
}

void ArenaGuard::before(std::byte* arena, int position, int micro_batch) const {
  if (points_.empty()) return;
  const Point& point = points_[position];
  for (const Stretch& stretch : point.born) mark_alive(arena + stretch.offset, stretch.bytes);
  for (const Stretch& end : point.written)
    write_guard(arena + end.offset_of(micro_batch), end.bytes);
}

void ArenaGuard::after(std::byte* arena, int position, int micro_batch) const {
  if (points_.empty()) return;
  const Point& point = points_[position];
  for (const Stretch& end : point.checked) {
    const std::int64_t changed = first_changed(arena + end.offset_of(micro_batch), end.bytes);
    invariant(changed == end.bytes,
              "wrote past the end of buffer {} of {} bytes, {} bytes beyond it", end.buffer,
              device_.buffers[end.buffer].type.bytes(), changed);
  }
  for (const Stretch& stretch : point.dying) mark_dead(arena + stretch.offset, stretch.bytes);
}

}  // namespace alpa::runtime
