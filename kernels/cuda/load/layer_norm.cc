// kernels/cuda/load/layer_norm.cc — loads layer_norm and rms_norm with their gradients
#include "kernels/cuda/layer_norm.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {

Launch load_layer_norm(const OpDef&, const KernelCall& call, const Gpu&) {
  const LayerNormLaunch launch{call.inputs.at(0).type.dtype, call.outputs.at(1).type.elements(),
                               call.inputs.at(1).type.elements(), call.attributes->real("epsilon")};
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(run_layer_norm(launch,
                                {now.inputs[0].data, now.inputs[1].data, now.inputs[2].data,
                                 now.outputs[0].data, now.outputs[1].data, now.outputs[2].data},
                                stream),
                 "layer normalisation");
  };
}

Launch load_layer_norm_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  const LayerNormLaunch launch{call.inputs.at(1).type.dtype, call.inputs.at(3).type.elements(),
                               call.inputs.at(2).type.elements(), 0};
  return [launch](const KernelCall& now, Stream stream) {
    const auto in = [&](int i) { return now.inputs[i].data; };
    check_queued(run_layer_norm_grad(launch,
                                     {in(0), in(1), in(2), in(3), in(4), now.outputs[0].data,
                                      now.outputs[1].data, now.outputs[2].data},
                                     reinterpret_cast<double*>(now.workspace), stream),
                 "gradient of layer normalisation");
  };
}

Launch load_rms_norm(const OpDef&, const KernelCall& call, const Gpu&) {
  const LayerNormLaunch launch{call.inputs.at(0).type.dtype, call.outputs.at(1).type.elements(),
                               call.inputs.at(1).type.elements(), call.attributes->real("epsilon")};
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(run_layer_norm(launch,
                                {now.inputs[0].data, now.inputs[1].data, nullptr,
                                 now.outputs[0].data, nullptr, now.outputs[1].data},
                                stream),
                 "RMS normalisation");
  };
}

Launch load_rms_norm_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  const LayerNormLaunch launch{call.inputs.at(1).type.dtype, call.inputs.at(3).type.elements(),
                               call.inputs.at(2).type.elements(), 0};
  return [launch](const KernelCall& now, Stream stream) {
    const auto in = [&](int i) { return now.inputs[i].data; };
    check_queued(run_layer_norm_grad(launch,
                                     {in(0), in(1), in(2), nullptr, in(3), now.outputs[0].data,
                                      now.outputs[1].data, nullptr},
                                     reinterpret_cast<double*>(now.workspace), stream),
                 "gradient of RMS normalisation");
  };
}

}  // namespace alpa::cuda
