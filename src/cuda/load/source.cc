// src/cuda/load/source.cc — loads operators without operands (constant, iota, random_normal,
// random_uniform) and dropout
#include <cstddef>

#include "kernels/cuda/copy.h"
#include "kernels/cuda/random.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

// The kernels read the step context from device memory, where step_numbers.h updates it.
static_assert(sizeof(StepNumbers) == sizeof(StepContext) &&
              offsetof(StepNumbers, seed) == offsetof(StepContext, seed) &&
              offsetof(StepNumbers, step) == offsetof(StepContext, step) &&
              offsetof(StepNumbers, micro_batch) == offsetof(StepContext, micro_batch));

Launch load_random(Distribution distribution, const OpDef& op, const KernelCall& call, double a,
                   double b) {
  const KernelTensor& y = call.outputs.at(0);
  RandomLaunch launch;
  if (!plan_random(launch, distribution, y.type.dtype,
                   static_cast<std::uint64_t>(call.attributes->integer("stream")), a, b,
                   y.type.rank(), y.type.shape.data(), y.offset.data(), y.global_shape.data()))
    fail_dims(op.name, y.type);
  return [launch](const KernelCall& now, Stream stream) {
    const auto* const step = reinterpret_cast<const StepNumbers*>(now.step);
    const void* const x = now.inputs.empty() ? nullptr : now.inputs[0].data;
    check_queued(run_random(launch, step, now.outputs[0].data, stream, x), "random numbers");
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
  return load_random(Distribution::normal, op, call, call.attributes->real("a"),
                     call.attributes->real("b"));
}

Launch load_random_uniform(const OpDef& op, const KernelCall& call, const Gpu&) {
  return load_random(Distribution::uniform, op, call, call.attributes->real("a"),
                     call.attributes->real("b"));
}

Launch load_dropout(const OpDef& op, const KernelCall& call, const Gpu&) {
  return load_random(Distribution::kept, op, call, call.attributes->real("rate"), 0);
}

}  // namespace alpa::cuda
