// src/lower/memory_rules.cc — alignment and scratch of each backend
#include "src/lower/memory_rules.h"

#include <utility>

#include "alpa/base/error.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/message_box.h"
#include "kernels/cuda/shard_blocks.h"
#include "src/ir/op_def.h"

namespace alpa::lower {
namespace {

std::int64_t cpu_scratch_bytes(const Node& node, const KernelCall& call) {
  invariant(node.op->cpu && *node.op->cpu, "\"{}\": operator {} has no CPU kernel", node.name,
            node.op->name);
  return node.op->cpu->workspace_bytes ? node.op->cpu->workspace_bytes(call) : 0;
}

std::int64_t cuda_scratch_bytes(const Node& node, const KernelCall& call) {
  if (node.op->custom) return cpu_scratch_bytes(node, call);
  return cuda::scratch_bytes(node.op->name, call);
}

const MemoryRules kCpu = {
    .alignment = 64, .scratch_bytes = cpu_scratch_bytes, .guard_bytes = ALPA_GUARD_BYTES};

// 256 bytes is what cudaMalloc aligns to and cuBLASLt's heuristic takes for granted.
// Room for NCCL's blocks is planned for logical devices, too: a plan does not know how
// many cards it will run on.
const MemoryRules kCuda = {.alignment = 256,
                           .scratch_bytes = cuda_scratch_bytes,
                           .collective_scratch_bytes = nccl_scratch_bytes,
                           .message_scratch_bytes = message_scratch_bytes,
                           .staged_inputs = true,
                           .side_by_side = true};

}  // namespace

bool nccl_gathers(const CollectiveCall& call) {
  return reduces(call.kind) && call.combiner == Combiner::log_sum_exp;
}

std::int64_t nccl_scratch_bytes(const CollectiveCall& call, const KernelCall& tensors) {
  std::int64_t bytes = 0;
  const auto add = [&](const KernelTensor& tensor, const ShardedDim& cut) {
    const int ranks = static_cast<int>(call.group.size());
    bytes += cuda::block_scratch_bytes(
        cuda::shard_blocks(tensor.type.shape, cut.dim, cut.chunk, ranks), tensor.type);
  };
  for (std::size_t t = 0; t < tensors.inputs.size(); ++t) {
    if (nccl_gathers(call)) {
      bytes +=
          cuda::gathered_scratch_bytes(tensors.inputs[t].type, static_cast<int>(call.group.size()));
      continue;
    }
    if (splits(call.kind)) add(tensors.inputs[t], call.dims[t]);
    if (joins(call.kind)) add(tensors.outputs[t], call.before(t));
  }
  return bytes;
}

std::int64_t message_scratch_bytes(const Message& message, const KernelTensor& tensor) {
  return cuda::box_scratch_bytes(cuda::message_box(tensor, message.begin, message.extent),
                                 tensor.type.dtype);
}

MemoryRules memory_rules(std::string_view backend, int threads_per_device) {
  static const std::pair<std::string_view, MemoryRules> rules_of[] = {{"cpu", kCpu},
                                                                      {"cuda", kCuda}};
  for (auto [name, rules] : rules_of) {
    rules.threads = threads_per_device;
    if (name == backend) return rules;
  }
  fail("backend \"{}\" is unknown; known are \"{}\" and \"{}\"", backend, rules_of[0].first,
       rules_of[1].first);
}

}  // namespace alpa::lower
