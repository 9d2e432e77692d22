#pragma once
/// The last step of emission: state and accumulators take their new content.
#include "alpa/pipeline/device_program.h"

namespace alpa {

/// `device` with every update either an alias (the new content is made in the state's memory) or a copy at
/// the end of its list.
DeviceProgram with_updates(const DeviceProgram& device, const SpmdProgram& program);

}  // namespace alpa
