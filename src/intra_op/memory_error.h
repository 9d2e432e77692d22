#pragma once
/// The error text of a memory budget that cannot be kept.
#include "alpa/ilp/solve.h"
#include "instance.h"

namespace alpa {

/// What to tell a user whose memory budget cannot be kept: by how many bytes, at which node, the largest
/// tensors there, what would help.
std::string memory_error(const ilp::Infeasible& infeasible, const Graph& graph, const SearchSpace& space,
                         const DeviceMesh& mesh, const AutoShardOptions& options);

}  // namespace alpa
