#pragma once
/// Checks of one device's program by itself; `verify_schedules` checks that programs fit together.
#include <string>

#include "src/lower/messages.h"

namespace alpa::lower {

/// "device 0 in backward of micro-batch 1, instruction 4 ("tanh")". Without `micro_batch` (-1):
/// "device 0 in backward, instruction 4 …".
std::string place_of(const DeviceProgram& device, const spmd::SpmdProgram& program, int list,
                     int instruction, int micro_batch = -1);

/// Throws Bug unless the lists have every node, message, and update of the device exactly once, on
/// the buffers of its values; and every list runs once per micro-batch, apply once, at the end.
/// `messages`: of `program`.
void verify_contents(const DeviceProgram& device, const spmd::SpmdProgram& program,
                     const Messages& messages);

/// Runs the schedule with names instead of numbers. Throws Bug if an instruction reads a buffer
/// that does not have the content of its micro-batch, or has not arrived yet; if it overwrites what
/// may still be sent; or if at the end a state, metric or output is not what the step computes.
void verify_flow(const DeviceProgram& device, const spmd::SpmdProgram& program);

}  // namespace alpa::lower
