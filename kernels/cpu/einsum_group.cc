// kernels/cpu/einsum_group.cc — einsum_group: its members, one after another
#include "kernels/plan/einsum_group.h"

#include "kernels/cpu/kernels.h"

namespace alpa::cpu {
namespace {

struct Prepared {
  const KernelDef* kernel;      ///< of every member
  mutable MemberCalls members;  ///< a call belongs to one thread
};

std::shared_ptr<const Prepared> prepare(const KernelCall& call) {
  const EinsumGroup group = einsum_group_of(*call.attributes);
  const KernelDef* const kernel = group.epilogue == Epilogue{} ? &einsum : &einsum_epilogue;
  auto prepared = std::make_shared<Prepared>(Prepared{kernel, {group, call}});
  for (KernelCall& member : prepared->members.calls) member.prepared = kernel->prepare(member);
  return prepared;
}

void run(const KernelCall& call) {
  const Prepared& prepared = *static_cast<const Prepared*>(call.prepared.get());
  for (const KernelCall& member : prepared.members.of(call)) prepared.kernel->run(member);
}

std::shared_ptr<const void> prepare_call(const KernelCall& call) { return prepare(call); }

std::int64_t workspace_of(const KernelCall& call) {
  const std::shared_ptr<const Prepared> prepared = prepare(call);
  return prepared->kernel->workspace_bytes(prepared->members.calls.front());
}

}  // namespace

const KernelDef einsum_group{run, prepare_call, workspace_of};

}  // namespace alpa::cpu
