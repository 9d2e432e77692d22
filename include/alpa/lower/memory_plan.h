#pragma once
/// Static memory: every buffer of a device program gets an offset in one arena before anything runs.
#include "alpa/lower/memory_rules.h"

namespace alpa {

/// Offsets by live ranges over all lists, by `rules`. Results lie in the memory of an
/// operand that dies there where the operator allows it; kernels' scratch gets buffers of its own, live
/// during the instruction. Of several packings the smallest is kept. Sets alias_of, arena_offset,
/// Instruction::workspace and arena_bytes, which is the end of the last buffer, to the byte.
DeviceProgram plan_memory(const DeviceProgram& device, const SpmdProgram& program,
                          const MemoryRules& rules = memory_rules("cpu"));

/// Throws Bug if two buffers that live at once overlap, or one leaves the arena or is not aligned.
void verify_memory(const DeviceProgram& device, const SpmdProgram& program,
                   const MemoryRules& rules = memory_rules("cpu"));

/// Most bytes that live at any one position, each buffer rounded up to the alignment: no packing takes less
/// (but for the last rounding).
std::int64_t live_bytes_bound(const DeviceProgram& device, const MemoryRules& rules = memory_rules("cpu"));

/// emit, plan_memory and verify_memory for one device: what an executor of the same `overlap` runs.
DeviceProgram lower(const SpmdProgram& program, int device, bool overlap,
                    const MemoryRules& rules = memory_rules("cpu"), const PipelineSchedule& schedule = {});

/// The same for the first device of every class (lower/rank_classes.h), from which `programs_of_all`
/// makes the others.
std::vector<DeviceProgram> lower_classes(const SpmdProgram& program, bool overlap,
                                         const MemoryRules& rules = memory_rules("cpu"),
                                         const PipelineSchedule& schedule = {});

}  // namespace alpa
