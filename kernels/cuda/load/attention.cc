// kernels/cuda/load/attention.cc — loads attention, its gradient, and rotary position embeddings
#include "kernels/cuda/attention.h"
#include "kernels/cuda/rotary.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

const StepNumbers* step_of(const KernelCall& call) {
  return reinterpret_cast<const StepNumbers*>(call.step);
}

/// Operand `at`, if there is one.
const std::uint8_t* mask_of(const KernelCall& call, std::size_t at) {
  return call.inputs.size() > at ? call.inputs[at].as<std::uint8_t>() : nullptr;
}

}  // namespace

Launch load_attention(const OpDef&, const KernelCall& call, const Gpu&) {
  return [shape = kernels::attention_shape(call, call.inputs.at(0), call.inputs.at(1))](
             const KernelCall& now, Stream stream) {
    const auto in = [&](int i) { return now.inputs[i].data; };
    check_queued(
        run_attention(
            shape, {in(0), in(1), in(2), mask_of(now, 3), now.outputs[0].data, now.outputs[1].data},
            step_of(now), stream),
        "attention");
  };
}

Launch load_attention_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  return [shape = kernels::attention_shape(call, call.inputs.at(1), call.inputs.at(2))](
             const KernelCall& now, Stream stream) {
    const auto in = [&](int i) { return now.inputs[i].data; };
    check_queued(run_attention_grad(shape,
                                    {in(0), in(1), in(2), in(3), in(4), in(5), mask_of(now, 6),
                                     now.outputs[0].data, now.outputs[1].data, now.outputs[2].data},
                                    step_of(now), stream),
                 "gradient of attention");
  };
}

Launch load_rotary(const OpDef&, const KernelCall& call, const Gpu&) {
  return [shape = kernels::rotary_shape(call)](const KernelCall& now, Stream stream) {
    check_queued(run_rotary(shape, now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                            now.outputs[0].data, stream),
                 "rotary position embedding");
  };
}

}  // namespace alpa::cuda
