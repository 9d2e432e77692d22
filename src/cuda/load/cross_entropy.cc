// src/cuda/load/cross_entropy.cc — loads cross_entropy and cross_entropy_grad
#include "kernels/cuda/cross_entropy.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

CrossEntropyLaunch launch_of(const KernelCall& call) {
  const KernelTensor &x = call.inputs.at(0), &labels = call.inputs.at(1);
  const double smoothing = call.attributes->real("smoothing");
  return {.dtype = x.type.dtype,
          .rows = labels.type.elements(),
          .width = x.type.shape.back(),
          .first = x.offset.back(),
          .share = smoothing / static_cast<double>(x.global_shape.back()),
          .weight = 1 - smoothing};
}

}  // namespace

Launch load_cross_entropy(const OpDef&, const KernelCall& call, const Gpu&) {
  return [launch = launch_of(call)](const KernelCall& now, Stream stream) {
    check_queued(run_cross_entropy(launch, now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                                   now.outputs[0].data, now.outputs[1].data, stream),
                 "cross entropy");
  };
}

Launch load_cross_entropy_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  return [launch = launch_of(call)](const KernelCall& now, Stream stream) {
    const auto& in = now.inputs;
    check_queued(run_cross_entropy_grad(launch,
                                        {in[0].data, in[1].as<std::int32_t>(), in[2].data,
                                         in[3].data, in[4].data, now.outputs[0].data},
                                        stream),
                 "gradient of cross entropy");
  };
}

}  // namespace alpa::cuda
