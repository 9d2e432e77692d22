// kernels/plan/attention_shape.cc — reads a call of attention
#include "kernels/plan/attention_shape.h"

#include "src/tensor/kernel.h"

namespace alpa::kernels {

namespace {

/// The shape without `visible` and dropout.
AttentionShape extents_of(const KernelCall& call, const KernelTensor& q, const KernelTensor& k) {
  AttentionShape s{.dtype = q.type.dtype,
                   .batch = q.type.shape[0],
                   .queries = q.type.shape[1],
                   .heads = q.type.shape[2],
                   .keys = k.type.shape[1],
                   .key_heads = k.type.shape[2],
                   .width = q.type.shape[3],
                   .scale = call.attributes->real("scale")};
  if (s.key_heads > 0) s.group = s.heads / s.key_heads;
  if (call.attributes->contains("window")) s.window = call.attributes->integer("window");
  if (call.attributes->contains("soft_cap")) {
    s.soft_cap = call.attributes->real("soft_cap");
    s.cap_inverse = s.scale / s.soft_cap;
  }
  return s;
}

}  // namespace

AttentionShape attention_shape(const KernelCall& call, const KernelTensor& q,
                               const KernelTensor& k) {
  AttentionShape s = extents_of(call, q, k);
  s.dropout = call.attributes->real("dropout");
  s.repeats = !call.attributes->contains("varies");
  s.visible = call.attributes->integer("causal") != 0 ? q.offset[1] + s.keys - q.global_shape[1] + 1
                                                      : s.keys;
  if (s.dropout == 0) return s;
  s.stream = static_cast<std::uint64_t>(call.attributes->integer("stream"));
  s.draws_of_head = q.global_shape[1] * s.keys;
  s.draws_of_row = q.global_shape[2] * s.draws_of_head;
  s.draws = q.offset[0] * s.draws_of_row + q.offset[2] * s.draws_of_head + q.offset[1] * s.keys;
  return s;
}

HiddenKeys hidden_keys(const KernelCall& call, std::size_t first) {
  HiddenKeys hidden;
  const std::size_t operands = call.inputs.size();
  if (operands > first && call.inputs[first].type.dtype == DType::u8)
    hidden.mask = call.inputs[first++].as<std::uint8_t>();
  if (operands > first) {
    hidden.query_segments = call.inputs[first].as<std::int32_t>();
    hidden.key_segments = call.inputs[first + 1].as<std::int32_t>();
  }
  return hidden;
}

AttentionShape cached_attention_shape(const KernelCall& call) {
  AttentionShape s = extents_of(call, call.inputs[0], call.inputs[1]);
  s.visible = call.inputs[0].offset[1] + 1;
  s.cached = true;
  return s;
}

}  // namespace alpa::kernels
