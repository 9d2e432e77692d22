#pragma once
/// Tensors that a kernel takes in one launch if they lie side by side in the arena: equally far
/// apart, in their order.
#include <vector>

#include "src/lower/device_program.h"

namespace alpa::lower {

/// Lists of buffers whose memory `plan_memory` places side by side, as the instructions' kernels
/// want it (`cuda::rows_side_by_side`): tensors of equal size and copies that have no place yet.
/// Of lists with a buffer in common the first counts. Entries are results of `memory_of`.
std::vector<std::vector<int>> wanted_side_by_side(const DeviceProgram& device, const Graph& graph);

/// True if the instruction's kernel wants tensors side by side and they all lie so, in every
/// micro-batch. Memory is planned.
bool lie_side_by_side(const DeviceProgram& device, const Graph& graph,
                      const Instruction& instruction);

/// Launches of a compute instruction: one, or, where its kernel lacks tensors side by side, one for
/// each of a list. Memory is planned.
int launches_of(const DeviceProgram& device, const Graph& graph, const Instruction& instruction);

}  // namespace alpa::lower
