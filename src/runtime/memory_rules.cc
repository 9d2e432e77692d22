// src/runtime/memory_rules.cc — what each backend asks of memory planning
#include "alpa/base/error.h"
#include "alpa/runtime/memory_plan.h"
#include "kernels/cuda/scratch.h"

namespace alpa {
namespace {

std::int64_t cpu_scratch_bytes(const Node& node, const KernelCall& call) {
  invariant(node.op->cpu && *node.op->cpu, "\"{}\": operator {} has no CPU kernel", node.name,
            node.op->name);
  return node.op->cpu->workspace_bytes ? node.op->cpu->workspace_bytes(call) : 0;
}

std::int64_t cuda_scratch_bytes(const Node& node, const KernelCall& call) {
  return cuda::scratch_bytes(node.op->name, call);
}

// 256 bytes is what cudaMalloc aligns to and cuBLASLt's heuristic takes for granted.
constexpr MemoryRules kCpu{64, cpu_scratch_bytes, nullptr, false};
constexpr MemoryRules kCuda{256, cuda_scratch_bytes, nullptr, true};

}  // namespace

const MemoryRules& memory_rules(std::string_view backend) {
  if (backend == "cpu") return kCpu;
  require(backend == "cuda", "backend \"{}\" is unknown; known are \"cpu\" and \"cuda\"", backend);
  return kCuda;
}

}  // namespace alpa
