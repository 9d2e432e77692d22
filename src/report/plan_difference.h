#pragma once
/// What two plans do differently.
#include <string>

#include "alpa/compile/compiled_step.h"

namespace alpa {

/// Two plans side by side, priced for devices of `cluster`: seconds, memory, communication and
/// stages of the whole; layouts of tensors and ways to do operators that differ, by class of
/// layers, with the seconds and bytes of a device that this changes.
std::string difference_text(const CompiledStep& before, const CompiledStep& after,
                            const Cluster& cluster);

}  // namespace alpa
