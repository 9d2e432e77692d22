// kernels/plan/attention_shape.cc — reads a call of attention
#include "kernels/plan/attention_shape.h"

#include "src/tensor/kernel.h"

namespace alpa::kernels {

AttentionShape attention_shape(const KernelCall& call, const KernelTensor& q,
                               const KernelTensor& k) {
  const double dropout = call.attributes->real("dropout");
  return {
      .dtype = q.type.dtype,
      .batch = q.type.shape[0],
      .queries = q.type.shape[1],
      .heads = q.type.shape[2],
      .keys = k.type.shape[1],
      .key_heads = k.type.shape[2],
      .width = q.type.shape[3],
      .causal = call.attributes->integer("causal") != 0,
      .scale = call.attributes->real("scale"),
      .dropout = dropout,
      .stream = dropout > 0 ? static_cast<std::uint64_t>(call.attributes->integer("stream")) : 0,
      .visible = q.offset[1] + k.type.shape[1] - q.global_shape[1] + 1,
      .first_row = q.offset[0],
      .first_query = q.offset[1],
      .first_head = q.offset[2],
      .all_queries = q.global_shape[1],
      .all_heads = q.global_shape[2]};
}

}  // namespace alpa::kernels
