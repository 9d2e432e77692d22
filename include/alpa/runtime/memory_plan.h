#pragma once
/// Static memory: every buffer of a device program gets an offset in one arena before anything runs.
#include "alpa/pipeline/device_program.h"

namespace alpa {

/// Buffers start at multiples of this.
inline constexpr std::int64_t kBufferAlignment = 64;

/// Offsets by live ranges over accumulate (a loop) and apply. Results lie in the memory of an operand that
/// dies there where the operator allows it; kernels' scratch gets buffers of its own, live during the
/// instruction. Of several packings the smallest is kept. Sets alias_of, arena_offset,
/// Instruction::workspace and arena_bytes, which is the end of the last buffer, to the byte.
DeviceProgram plan_memory(const DeviceProgram& device, const SpmdProgram& program);

/// Throws Bug if two buffers that live at once overlap, or one leaves the arena or is not aligned.
void verify_memory(const DeviceProgram& device, const SpmdProgram& program);

/// Most bytes that live at any one position, each buffer rounded up to the alignment: no packing takes less
/// (but for the last rounding).
std::int64_t live_bytes_bound(const DeviceProgram& device);

/// emit, plan_memory and verify_memory for one rank: what an executor of the same `overlap` runs.
DeviceProgram lower(const SpmdProgram& program, int rank, bool overlap);

}  // namespace alpa
