#pragma once
/// Static memory planning: every buffer of a device program gets an offset in
/// one arena before it runs.
#include "src/lower/memory_rules.h"
#include "src/lower/state_layout.h"

namespace alpa::lower {

/// Assigns offsets by live ranges over all lists, under `rules`. A result reuses the memory of an
/// operand whose last use is its instruction, if the operator allows it. A kernel's scratch is a
/// buffer of its own, live during the instruction. Tensors that a kernel wants side by side
/// (lower/side_by_side.h) are one block, live while any of them is. Keeps the smallest of several
/// packings. Sets alias_of, arena_offset, Instruction::workspace and arena_bytes, the exact end of
/// the last buffer. Buffers that have an offset already (`place_state`) keep it. `packing`, of
/// another program, is one more way to pack if the buffers fit where it has those of the same
/// numbers.
DeviceProgram plan_memory(const DeviceProgram& device, const spmd::SpmdProgram& program,
                          const MemoryRules& rules = memory_rules("cpu"),
                          const Packing& packing = {});

/// Throws Bug if two buffers that are live at once overlap, or if one exceeds
/// the arena or is misaligned.
void verify_memory(const DeviceProgram& device, const spmd::SpmdProgram& program,
                   const MemoryRules& rules = memory_rules("cpu"));

/// emit, plan_memory and verify_memory for one device: the program that an executor with the same
/// `overlap` runs. With `state`, the program works on that state.
DeviceProgram lower(const spmd::SpmdProgram& program, int device, bool overlap,
                    const MemoryRules& rules = memory_rules("cpu"),
                    const pipeline::PipelineSchedule& schedule = {},
                    const StateLayout* state = nullptr);

/// `lower` for the first device of every class (lower/rank_classes.h);
/// `programs_of_all` makes the others.
std::vector<DeviceProgram> lower_classes(const spmd::SpmdProgram& program, bool overlap,
                                         const MemoryRules& rules = memory_rules("cpu"),
                                         const pipeline::PipelineSchedule& schedule = {},
                                         const StateLayout* state = nullptr);

}  // namespace alpa::lower
