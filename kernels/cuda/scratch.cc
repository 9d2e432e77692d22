#include "kernels/cuda/scratch.h"

#include "kernels/cuda/einsum_plan.h"
#include "kernels/cuda/epilogue_plan.h"
#include "kernels/cuda/reduce_call.h"
#include "kernels/cuda/update.h"

namespace alpa::cuda {
namespace {

/// A double per chunk of every operand.
std::int64_t norms_bytes(const KernelCall& call) {
  std::int64_t chunks = 0;
  for (const KernelTensor& x : call.inputs) chunks += chunks_of(x.type.elements());
  return chunks * static_cast<std::int64_t>(sizeof(double));
}

struct ScratchOf {
  std::string_view op;
  std::int64_t (*bytes)(const KernelCall& call);
};

/// Operators that need scratch.
constexpr ScratchOf kScratch[] = {
    {"squared_norms", norms_bytes},
    {"reduce_sum",
     [](const KernelCall& call) { return reduce_workspace_bytes(reduce_call("reduce_sum", call)); }},
    {"reduce_max",
     [](const KernelCall& call) { return reduce_workspace_bytes(reduce_call("reduce_max", call)); }},
    {"einsum", [](const KernelCall& call) { return plan_einsum_steps(call).scratch_bytes; }},
    {"einsum_epilogue", [](const KernelCall& call) { return plan_epilogue(call).scratch_bytes; }},
};

}  // namespace

std::int64_t scratch_bytes(std::string_view op, const KernelCall& call) {
  for (const ScratchOf& row : kScratch)
    if (row.op == op) return row.bytes(call);
  return 0;
}

}  // namespace alpa::cuda
