#pragma once
/// One group of elementwise nodes as one node.
#include <optional>
#include <vector>

#include "src/spmd/program.h"

namespace alpa::spmd {

/// The fused node of these elementwise nodes (ascending, one iteration space), its operands
/// and results values of `program`; nothing if the group is a single node that gains
/// nothing. Constants become immediates; broadcasts in the same region are read through.
/// `readers` are the graph's consumers, `taken` says by value whether an update, metric or
/// output reads it.
std::optional<Node> fuse_group(const SpmdProgram& program,
                               const std::vector<std::vector<int>>& readers,
                               const std::vector<bool>& taken, const std::vector<int>& group);

}  // namespace alpa::spmd
