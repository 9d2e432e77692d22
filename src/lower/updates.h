#pragma once
/// The last steps of emission: writes new content into state and accumulators, and keeps sent
/// memory unchanged until it is sent.
#include "src/lower/device_program.h"

namespace alpa::lower {

/// `device` with every update either an alias (the new content is made in the state's memory) or a
/// copy at the end of its list.
DeviceProgram with_updates(const DeviceProgram& device, const spmd::SpmdProgram& program);

/// `device` with a wait in front of whatever would overwrite memory that a
/// run may still be sending.
DeviceProgram guard_sends(const DeviceProgram& device);

}  // namespace alpa::lower
