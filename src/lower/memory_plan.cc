// src/lower/memory_plan.cc — offsets of all buffers of a device program in one arena
#include "src/lower/memory_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "alpa/base/error.h"
#include "src/base/thread_team.h"
#include "src/lower/arena_gaps.h"
#include "src/lower/carried_memory.h"
#include "src/lower/kernel_call.h"
#include "src/lower/program_facts.h"
#include "src/lower/rank_classes.h"
#include "src/lower/side_by_side.h"
#include "src/lower/staging.h"
#include "src/lower/take_over.h"

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

std::int64_t aligned(std::int64_t bytes, const MemoryRules& rules) {
  return (bytes + rules.alignment - 1) / rules.alignment * rules.alignment;
}

template <class Body>
void for_each_instruction(DeviceProgram& device, Body&& body) {
  int position = 0;
  for (InstructionList& list : device.lists)
    for (Instruction& instruction : list.instructions) body(instruction, position++);
}

/// Adds a buffer of `bytes` bytes and returns its number.
int add_bytes(DeviceProgram& device, std::int64_t bytes) {
  device.buffers.push_back({{u8, {bytes}}, {0}, {bytes}, -1, -1});
  return static_cast<int>(device.buffers.size()) - 1;
}

std::int64_t scratch_bytes(const DeviceProgram& device, const spmd::SpmdProgram& program,
                           const Instruction& instruction, const MemoryRules& rules) {
  if (instruction.kind == Kind::compute)
    return rules.scratch_bytes(program.graph.nodes[instruction.node],
                               kernel_call(device, program, instruction, rules.threads));
  const bool sends = instruction.kind == Kind::send;
  if (sends || instruction.kind == Kind::receive)
    return rules.message_scratch_bytes
               ? rules.message_scratch_bytes(
                     instruction.message,
                     kernel_tensor(device, sends ? instruction.inputs[0] : instruction.outputs[0]))
               : 0;
  const bool collective = instruction.kind == Kind::collective || instruction.kind == Kind::start;
  if (!collective || !rules.collective_scratch_bytes) return 0;
  return rules.collective_scratch_bytes(instruction.call, tensors_of(device, instruction));
}

void add_workspaces(DeviceProgram& device, const spmd::SpmdProgram& program,
                    const MemoryRules& rules) {
  for_each_instruction(device, [&](Instruction& instruction, int) {
    const std::int64_t bytes = scratch_bytes(device, program, instruction, rules);
    if (bytes > 0) instruction.workspace = add_bytes(device, bytes);
  });
}

void add_staging(DeviceProgram& device, const spmd::SpmdProgram& program) {
  device.staging = add_bytes(device, kStagedSteps * staging_layout(device, program).bytes);
  device.kept.push_back(device.staging);
}

/// A range of the arena during a range of time.
struct Block {
  int buffer;
  std::int64_t bytes;  ///< rounded up
  LiveRange range;
  std::int64_t offset = -1;
  std::vector<int> more = {};  ///< buffers of equal size that lie behind it, within its bytes

  std::int64_t length() const { return range.end - range.begin + 1; }
};

/// Blocks with their places.
struct Placed {
  std::vector<Block> blocks = {};
  std::int64_t end = -1;   ///< of the last block
  std::int64_t looks = 0;  ///< the work that it took
};

/// Places the blocks from `begin` on, in this order: each in the lowest gap that holds it (or the
/// smallest one, if `tight`) among those that live at the same time.
Placed pack(std::vector<Block> blocks, int positions, std::int64_t begin, bool tight) {
  ArenaGaps gaps(positions);
  Placed placed{.end = begin};
  for (Block& block : blocks) {
    block.offset = gaps.find(block.range, block.bytes, begin, tight);
    placed.end = std::max(placed.end, block.offset + block.bytes);
    gaps.place(block.range, block.offset, block.bytes);
  }
  placed.blocks = std::move(blocks);
  placed.looks = gaps.looks();
  return placed;
}

using Before = std::function<bool(const Block&, const Block&)>;

/// Longest lived first, then by different notions of what is hardest to place.
std::vector<Before> orders() {
  return {
      [](const Block& a, const Block& b) { return a.bytes > b.bytes; },
      [](const Block& a, const Block& b) { return a.bytes * a.length() > b.bytes * b.length(); },
      [](const Block& a, const Block& b) { return a.length() > b.length(); },
      [](const Block& a, const Block& b) { return a.range.begin < b.range.begin; },
  };
}

/// Bytes from one copy of a buffer to the next, guard included.
std::int64_t stride_of(const Buffer& buffer, const MemoryRules& rules) {
  return aligned(buffer.type.bytes() + rules.guard_bytes, rules);
}

std::vector<Block> blocks_of(const DeviceProgram& device, const MemoryRules& rules) {
  const std::vector<LiveRange> ranges = live_ranges(device);
  std::vector<Block> blocks;
  for (int b = 0; b < static_cast<int>(device.buffers.size()); ++b)
    if (!ranges[b].empty() && device.buffers[b].type.bytes() > 0)
      blocks.push_back({b, device.buffers[b].slots * stride_of(device.buffers[b], rules), ranges[b],
                        device.buffers[b].arena_offset});
  return blocks;
}

std::int64_t bound_of(const std::vector<Block>& blocks, int positions) {
  std::vector<std::int64_t> change(positions + 3, 0);
  for (const Block& block : blocks) {
    change[block.range.begin + 1] += block.bytes;
    change[block.range.end + 2] -= block.bytes;
  }
  std::int64_t live = 0, most = 0;
  for (std::int64_t c : change) most = std::max(most, live += c);
  return most;
}

/// Takes the blocks that live from the start of a step to its end out of `blocks`, placed one after
/// another: no other block can share their bytes. Those that have a place keep it, and come first.
std::vector<Block> place_permanent(std::vector<Block>& blocks, int positions) {
  const auto transient = std::stable_partition(
      blocks.begin(), blocks.end(),
      [&](const Block& block) { return block.range.begin == -1 && block.range.end == positions; });
  std::vector<Block> permanent(blocks.begin(), transient);
  blocks.erase(blocks.begin(), transient);
  std::int64_t end = 0;
  for (const Block& block : permanent)
    if (block.offset >= 0) end = std::max(end, block.offset + block.bytes);
  for (Block& block : permanent)
    if (block.offset < 0) block.offset = std::exchange(end, end + block.bytes);
  return permanent;
}

/// Two blocks that share bytes at one time, the lower one first: those that live are kept by
/// offset, where each needs to be compared with its neighbours alone.
std::optional<std::pair<const Block*, const Block*>> overlapping(const std::vector<Block>& blocks) {
  std::vector<const Block*> by_begin, by_end;
  for (const Block& block : blocks) by_begin.push_back(&block);
  by_end = by_begin;
  std::sort(by_begin.begin(), by_begin.end(),
            [](const Block* a, const Block* b) { return a->range.begin < b->range.begin; });
  std::sort(by_end.begin(), by_end.end(),
            [](const Block* a, const Block* b) { return a->range.end < b->range.end; });
  std::map<std::int64_t, const Block*> living;
  auto ending = by_end.begin();
  for (const Block* block : by_begin) {
    for (; ending != by_end.end() && (*ending)->range.end < block->range.begin; ++ending)
      living.erase((*ending)->offset);
    const auto after = living.lower_bound(block->offset);
    if (after != living.end() && after->first < block->offset + block->bytes)
      return std::pair(block, after->second);
    if (after != living.begin()) {
      const Block* before = std::prev(after)->second;
      if (block->offset < before->offset + before->bytes) return std::pair(before, block);
    }
    living.emplace(block->offset, block);
  }
  return std::nullopt;
}

/// The blocks where another program has its buffers; nothing unless they fit there.
std::optional<std::vector<Block>> placed_as(const Packing& packing, const DeviceProgram& device,
                                            std::vector<Block> blocks) {
  if (packing.size() != device.buffers.size()) return {};
  for (Block& block : blocks) {
    const std::int64_t place = packing[block.buffer];
    if (place < 0 || (block.offset >= 0 && block.offset != place)) return {};
    block.offset = place;
  }
  if (overlapping(blocks)) return {};
  return blocks;
}

std::int64_t end_of(const std::vector<Block>& blocks) {
  std::int64_t end = 0;
  for (const Block& block : blocks) end = std::max(end, block.offset + block.bytes);
  return end;
}

/// The blocks of each list as one, in use while any of them is.
std::vector<Block> joined(std::vector<Block> blocks, const std::vector<std::vector<int>>& lists) {
  std::map<int, std::size_t> block_of;
  for (std::size_t b = 0; b < blocks.size(); ++b) block_of[blocks[b].buffer] = b;
  for (const std::vector<int>& list : lists) {
    if (!std::all_of(list.begin(), list.end(), [&](int b) { return block_of.contains(b); }))
      continue;
    Block& first = blocks[block_of[list.front()]];
    first.more.assign(list.begin() + 1, list.end());
    for (int buffer : first.more) {
      Block& other = blocks[block_of[buffer]];
      first.range.begin = std::min(first.range.begin, other.range.begin);
      first.range.end = std::max(first.range.end, other.range.end);
      other.buffer = -1;
    }
    first.bytes *= static_cast<std::int64_t>(list.size());
  }
  std::erase_if(blocks, [](const Block& block) { return block.buffer < 0; });
  return blocks;
}

/// The blocks of single buffers.
std::vector<Block> separated(const std::vector<Block>& blocks) {
  std::vector<Block> single;
  for (const Block& block : blocks) {
    const std::int64_t bytes = block.bytes / static_cast<std::int64_t>(block.more.size() + 1);
    single.push_back({block.buffer, bytes, block.range, block.offset});
    for (int buffer : block.more)
      single.push_back({buffer, bytes, block.range, single.back().offset + bytes});
  }
  return single;
}

/// Further packings are tried while those so far took less work: about half a second's.
constexpr std::int64_t kMostLooks = 20'000'000;

/// The best of several packings; stops at one that can't be beaten. Buffers of each of
/// `side_by_side` lie so, unless another program's packing is better.
std::vector<Block> packed(const DeviceProgram& device, const MemoryRules& rules,
                          const Packing& packing,
                          const std::vector<std::vector<int>>& side_by_side) {
  const int positions = num_positions(device);
  std::vector<Block> blocks = blocks_of(device, rules);
  const std::optional<std::vector<Block>> as_given = placed_as(packing, device, blocks);
  blocks = joined(std::move(blocks), side_by_side);
  const std::int64_t bound = bound_of(blocks, positions);
  std::vector<Block> permanent = place_permanent(blocks, positions);
  std::int64_t begin = 0, looks = 0;
  for (const Block& block : permanent) begin = std::max(begin, block.offset + block.bytes);
  Placed best;
  for (const Before& before : orders())
    for (bool tight : {false, true}) {
      if (best.end >= 0 && (best.end <= bound || looks > kMostLooks)) break;
      std::vector<Block> ordered = blocks;
      std::stable_sort(ordered.begin(), ordered.end(), before);
      Placed attempt = pack(std::move(ordered), positions, begin, tight);
      looks += attempt.looks;
      if (best.end < 0 || attempt.end < best.end) best = std::move(attempt);
    }
  permanent.insert(permanent.end(), best.blocks.begin(), best.blocks.end());
  return as_given && end_of(*as_given) < end_of(permanent) ? *as_given : separated(permanent);
}

/// Throws Bug if an instruction after an overlapped one writes its operands or accesses its
/// results.
void verify_aside(const DeviceProgram& device, const InstructionList& list) {
  std::vector<bool> read(device.buffers.size()), written(device.buffers.size());
  for (const Instruction& instruction : list.instructions) {
    const auto check = [&](const std::vector<int>& buffers, bool writes) {
      for (int buffer : buffers) {
        const int memory = memory_of(device, buffer);
        invariant(!written[memory] && !(writes && read[memory]),
                  "device {}: {} of node {} accesses buffer {}, which an overlapped instruction "
                  "is using",
                  device.device, name_of(instruction.kind), instruction.node, memory);
      }
    };
    check(instruction.inputs, false);
    check(instruction.outputs, true);
    if (!instruction.overlapped) continue;
    for (int buffer : instruction.inputs) read[memory_of(device, buffer)] = true;
    for (int buffer : instruction.outputs) written[memory_of(device, buffer)] = true;
  }
}

/// Throws Bug if a run would overwrite what one list hands to another.
void verify_slots(const DeviceProgram& device) {
  const std::vector<CarriedMemory> carries = carried_memory(device);
  for (std::size_t b = 0; b < carries.size(); ++b)
    invariant(device.buffers[b].slots >= carries[b].slots,
              "device {}: buffer {} has {} copies, but its schedule keeps {} in flight",
              device.device, b, device.buffers[b].slots, carries[b].slots);
}

}  // namespace

DeviceProgram plan_memory(const DeviceProgram& device, const spmd::SpmdProgram& program,
                          const MemoryRules& rules, const Packing& packing) {
  DeviceProgram result = device;
  result.guard_bytes = rules.guard_bytes;
  add_workspaces(result, program, rules);
  if (rules.staged_inputs) add_staging(result, program);
  take_over(result, program);
  const std::vector<std::vector<int>> side_by_side =
      rules.side_by_side ? wanted_side_by_side(result, program.graph)
                         : std::vector<std::vector<int>>();
  for (const Block& block : packed(result, rules, packing, side_by_side)) {
    Buffer& buffer = result.buffers[block.buffer];
    buffer.arena_offset = block.offset;
    if (buffer.slots > 1) buffer.slot_bytes = stride_of(buffer, rules);
    result.arena_bytes = std::max(result.arena_bytes, buffer.arena_offset_of(buffer.slots - 1) +
                                                          buffer.type.bytes() + rules.guard_bytes);
  }
  for (int b = 0; b < static_cast<int>(result.buffers.size()); ++b) {
    const Buffer& owner = result.buffers[memory_of(result, b)];
    Buffer& buffer = result.buffers[b];
    buffer.arena_offset = owner.arena_offset;
    buffer.slots = owner.slots;
    buffer.slot_bytes = owner.slot_bytes;
  }
  return result;
}

void verify_memory(const DeviceProgram& device, const spmd::SpmdProgram& program,
                   const MemoryRules& rules) {
  for (const InstructionList& list : device.lists) verify_aside(device, list);
  verify_slots(device);
  std::vector<Block> blocks = blocks_of(device, rules);
  for (Block& block : blocks) {
    const Buffer& buffer = device.buffers[block.buffer];
    block.offset = buffer.arena_offset;
    block.bytes = (buffer.slots - 1) * buffer.slot_bytes + buffer.type.bytes() + rules.guard_bytes;
    if (buffer.slots > 1 && (buffer.slot_bytes % rules.alignment != 0 ||
                             buffer.slot_bytes < buffer.type.bytes() + rules.guard_bytes))
      bug("memory of device {} of {}: copies of buffer {} are {} bytes apart", device.device,
          shape_text(program.meshes[device.mesh]), block.buffer, buffer.slot_bytes);
    if (block.offset < 0 || block.offset % rules.alignment != 0 ||
        block.offset + block.bytes > device.arena_bytes)
      bug("memory of device {} of {}: buffer {} of {} bytes at {} in an arena of {}", device.device,
          shape_text(program.meshes[device.mesh]), block.buffer, block.bytes, block.offset,
          device.arena_bytes);
  }
  if (const auto pair = overlapping(blocks))
    bug("memory of device {} of {}: buffers {} and {} overlap at {}", device.device,
        shape_text(program.meshes[device.mesh]), pair->first->buffer, pair->second->buffer,
        pair->second->offset);
}

namespace {

DeviceProgram lower(const ProgramFacts& facts, int device, const MemoryRules& rules,
                    const StateLayout* state) {
  DeviceProgram emitted = emit(facts, device);
  Packing packing;
  if (state) {
    place_state(emitted, facts.program, *state);
    const auto found = state->packing.find(device);
    if (found != state->packing.end()) packing = found->second;
  }
  DeviceProgram result = plan_memory(emitted, facts.program, rules, packing);
  verify_memory(result, facts.program, rules);
  return result;
}

}  // namespace

DeviceProgram lower(const spmd::SpmdProgram& program, int device, bool overlap,
                    const MemoryRules& rules, const pipeline::PipelineSchedule& schedule,
                    const StateLayout* state) {
  ProgramFacts facts(program, overlap, schedule);
  facts.awaits_within_peak = rules.awaits_within_peak;
  return lower(facts, device, rules, state);
}

std::vector<DeviceProgram> lower_classes(const spmd::SpmdProgram& program, bool overlap,
                                         const MemoryRules& rules,
                                         const pipeline::PipelineSchedule& schedule,
                                         const StateLayout* state) {
  ProgramFacts facts(program, overlap, schedule);
  facts.awaits_within_peak = rules.awaits_within_peak;
  const std::vector<std::vector<int>> classes = device_classes(program, facts.messages, state);
  std::vector<DeviceProgram> programs(classes.size());
  ThreadTeam team(std::min(static_cast<int>(classes.size()), usable_cores()));
  team.for_each(static_cast<std::int64_t>(classes.size()), 1, [&](std::int64_t i) {
    programs[i] = lower(facts, classes[i].front(), rules, state);
  });
  return programs;
}

}  // namespace alpa::lower
