#pragma once
/// The error text of a memory budget that cannot be kept.
#include "src/ilp/solve.h"
#include "src/intra_op/program/instance.h"

namespace alpa::intra_op {

/// By how many bytes the budget is missed, at which node, the largest tensors there, the bytes of
/// the smallest plan found (0: none), and what would help.
std::string memory_error(const ilp::Infeasible& infeasible, const Graph& graph,
                         const SearchSpace& space, const DeviceMesh& mesh,
                         const AutoShardOptions& options, std::int64_t smallest);

}  // namespace alpa::intra_op
