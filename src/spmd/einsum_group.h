#pragma once
/// Products of one left operand as one node, which CUDA can queue as one launch.
#include "src/spmd/program.h"

namespace alpa::ops {
/// (x, y…[, bias…][, addend…]) → (z…[, sums…]): einsums with equal equations, epilogues and types,
/// all of x (kernels/plan/einsum_group.h).
extern const OpDef einsum_group;
}  // namespace alpa::ops

namespace alpa::spmd {

bool is_einsum_group(const Node& node);

/// The members of an einsum_group node, as nodes of their own.
std::vector<Node> members_of_group(const Node& group);

/// True if one kernel can compute an einsum_group node of these local types and attributes, if its
/// tensors lie side by side. Data pointers are not set.
using GroupsEinsums = bool (*)(const KernelCall& node);

/// Makes one node of einsums of a layer with the same left operand, equal equations, epilogues,
/// types and layouts, where `groups` says that one kernel can compute them: queries, keys and
/// values, and the gradients of their weights. The node is placed as a bucket of collectives is,
/// and may add `slack_bytes` to the peak of live bytes. Reshapes that only rename an operand's
/// bytes move to where that is made.
SpmdProgram group_einsums(const SpmdProgram& program, GroupsEinsums groups,
                          std::int64_t slack_bytes = 0);

}  // namespace alpa::spmd
