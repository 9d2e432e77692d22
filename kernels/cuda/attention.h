#pragma once
/// Attention: contracts of `cpu::attention` and `cpu::attention_grad`. A warp works on one query,
/// or in the gradient of keys on one key, and takes the others 32 at a time, one per lane: nothing
/// of size T × S is stored, and there are no atomics, so results repeat bit for bit. Sums are f32,
/// of f64 f64.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/step_numbers.h"
#include "kernels/plan/attention_shape.h"

namespace alpa::cuda {

/// With `positions`, of a cache, shape.visible of row b is positions[b] more; nothing else is
/// hidden then, and lse is null. `step` is device memory, as for `run_random`.
struct AttentionTensors {
  const void *q, *k, *v;
  kernels::HiddenKeys hidden;
  void *y, *lse;
  const std::int32_t* positions = nullptr;
};
Status run_attention(const kernels::AttentionShape& shape, const AttentionTensors& tensors,
                     const StepNumbers* step, Stream stream);

/// `delta`: scratch, a number for every query as in lse.
struct AttentionGradTensors {
  const void *dy, *q, *k, *v, *y, *lse;
  kernels::HiddenKeys hidden;
  void *delta, *dq, *dk, *dv;
};
Status run_attention_grad(const kernels::AttentionShape& shape, const AttentionGradTensors& tensors,
                          const StepNumbers* step, Stream stream);

}  // namespace alpa::cuda
