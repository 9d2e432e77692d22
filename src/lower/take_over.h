#pragma once
/// Results in the memory of operands.
#include "src/lower/device_program.h"

namespace alpa::lower {

/// Lets results take over the memory of operands that die where the results are made, if the
/// operator allows it: sets `Buffer::alias_of`.
void take_over(DeviceProgram& device, const spmd::SpmdProgram& program);

}  // namespace alpa::lower
