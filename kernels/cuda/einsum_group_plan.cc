// kernels/cuda/einsum_group_plan.cc — decides whether one batched product can compute all members
#include "kernels/cuda/einsum_group_plan.h"

#include <algorithm>

namespace alpa::cuda {
namespace {

bool is_used_as_it_is(const OperandSteps& operand) {
  return operand.converted == kNowhere && operand.packed == kNowhere;
}

/// One product of matrices that are used where they are.
bool is_one_product(const EinsumSteps& e) {
  return e.kind == EinsumSteps::Kind::product && e.product == kNowhere && e.outer.empty() &&
         e.shape.batch.empty() && is_used_as_it_is(e.a) && is_used_as_it_is(e.b);
}

}  // namespace

EinsumGroupSteps plan_einsum_group(const KernelCall& call) {
  EinsumGroupSteps steps;
  steps.group = einsum_group_of(*call.attributes);
  steps.member = plan_epilogue(MemberCalls(steps.group, call).calls.front());
  const EinsumSteps& einsum = steps.member.einsum;
  steps.joint = is_one_product(einsum) && steps.member.joint;
  steps.scratch_bytes = steps.member.scratch_bytes;
  if (!steps.joint) return steps;
  steps.workspace_bytes = product_workspace_bytes(einsum.shape.m * einsum.shape.n *
                                                  static_cast<std::int64_t>(steps.group.members));
  steps.scratch_bytes = std::max(steps.scratch_bytes, steps.workspace_bytes + kProductAlignment);
  return steps;
}

}  // namespace alpa::cuda
