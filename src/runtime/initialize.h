#pragma once
/// First content of state inputs.
#include <cstdint>

#include "src/base/thread_team.h"
#include "src/runtime/held_parts.h"
#include "src/tensor/kernel.h"

namespace alpa::runtime {

/// Fills a local shard of a graph's state input as the attributes of its node say ("init", "a",
/// "b"). Every element is a function of seed, name and its index in the whole tensor. A copy gets
/// what its state gets, in its own element type.
void initialize(const KernelTensor& shard, const Graph& graph, const Input& input,
                std::uint64_t seed, ThreadTeam& team);

/// Fills the state of all devices of this process. Every distinct part is drawn once.
void fill_state(const Graph& graph, const Directory& directory, const Programs& programs,
                DevicesHere here, Devices& devices, DeviceState& state);

}  // namespace alpa::runtime
