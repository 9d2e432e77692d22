#pragma once
/// First content of state inputs.
#include <cstdint>
#include <string>

#include "alpa/base/attributes.h"
#include "src/base/thread_team.h"
#include "src/runtime/held_parts.h"
#include "src/tensor/kernel.h"

namespace alpa::runtime {

/// Fills a local shard of state `name` as the attributes of its input node say ("init", "a", "b").
/// Every element is a function of seed, name and its index in the whole tensor.
void initialize(const KernelTensor& shard, const std::string& name, const Attributes& attributes,
                std::uint64_t seed, ThreadTeam& team);

/// Fills the state of all devices of this process. Every distinct part is drawn once.
void fill_state(const Graph& graph, const Directory& directory, const Programs& programs,
                DevicesHere here, Devices& devices, DeviceState& state);

}  // namespace alpa::runtime
