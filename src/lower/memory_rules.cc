// src/lower/memory_rules.cc — scratch of exchanges through NCCL
#include "src/lower/memory_rules.h"

#include "kernels/cuda/message_box.h"
#include "kernels/cuda/shard_blocks.h"

namespace alpa::lower {

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

}  // namespace alpa::lower
