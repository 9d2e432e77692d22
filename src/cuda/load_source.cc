// src/cuda/load_source.cc — loads operators without operands: constant,
// iota, random_normal, random_uniform
#include <cstddef>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/random.h"
#include "loads.h"

namespace alpa::cuda {
namespace {

// The kernels read the step context from device memory, where step_numbers.h updates it.
static_assert(sizeof(StepNumbers) == sizeof(StepContext) &&
              offsetof(StepNumbers, seed) == offsetof(StepContext, seed) &&
              offsetof(StepNumbers, step) == offsetof(StepContext, step) &&
              offsetof(StepNumbers, micro_batch) == offsetof(StepContext, micro_batch));

Launch load_random(Distribution distribution, const OpDef& op, const KernelCall& call) {
  const KernelTensor& y = call.outputs.at(0);
  const Attributes& attributes = *call.attributes;
  RandomLaunch launch;
  if (!plan_random(launch, distribution, y.type.dtype,
                   static_cast<std::uint64_t>(attributes.integer("stream")), attributes.real("a"),
                   attributes.real("b"), y.type.rank(), y.type.shape.data(), y.offset.data(),
                   y.global_shape.data()))
    fail_dims(op.name, y.type);
  return [launch](const KernelCall& now, Stream stream) {
    const auto* const step = reinterpret_cast<const StepNumbers*>(now.step);
    check_queued(run_random(launch, step, now.outputs[0].data, stream), "random numbers");
  };
}

}  // namespace

Launch load_constant(const OpDef&, const KernelCall& call, const Gpu&) {
  return [type = call.outputs.at(0).type, value = call.attributes->real("value")](
             const KernelCall& now, Stream stream) {
    check_queued(run_fill(now.outputs[0].data, type.dtype, type.elements(), value, stream), "fill");
  };
}

Launch load_iota(const OpDef&, const KernelCall& call, const Gpu&) {
  const KernelTensor& y = call.outputs.at(0);
  const auto axis = static_cast<std::size_t>(call.attributes->integer("axis"));
  const std::int64_t extent = y.type.shape.at(axis), offset = y.offset.at(axis);
  std::int64_t inner = 1;
  for (std::size_t d = axis + 1; d < y.type.shape.size(); ++d) inner *= y.type.shape[d];
  return [type = y.type, extent, inner, offset](const KernelCall& now, Stream stream) {
    check_queued(
        run_iota(now.outputs[0].data, type.dtype, type.elements(), extent, inner, offset, stream),
        "iota");
  };
}

Launch load_random_normal(const OpDef& op, const KernelCall& call, const Gpu&) {
  return load_random(Distribution::normal, op, call);
}

Launch load_random_uniform(const OpDef& op, const KernelCall& call, const Gpu&) {
  return load_random(Distribution::uniform, op, call);
}

}  // namespace alpa::cuda
