#pragma once
/// Static memory: every buffer of a device program gets an offset in one arena before anything runs.
#include "alpa/pipeline/device_program.h"

namespace alpa {

/// Offsets by liveness over accumulate (a loop) and apply: state and accumulators live always, temporaries from first write to last read
/// (a started collective's buffers until its wait), in place where the operator allows it. Sets arena_offset, workspace_offset, arena_bytes.
DeviceProgram plan_memory(const DeviceProgram& device, const SpmdProgram& program);

/// Throws Bug if two buffers that live at once overlap, or one leaves the arena.
void verify_memory(const DeviceProgram& device, const SpmdProgram& program);

}  // namespace alpa
