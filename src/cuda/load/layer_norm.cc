// src/cuda/load/layer_norm.cc — loads layer_norm and rms_norm with their gradients
#include "kernels/cuda/layer_norm.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

/// `centred`: layer_norm, which has a mean and a bias; else rms_norm, which has neither.
Launch load_norm(const KernelCall& call, bool centred, const char* what) {
  const LayerNormLaunch launch{call.inputs.at(0).type.dtype, call.outputs.at(1).type.elements(),
                               call.inputs.at(1).type.elements(), call.attributes->real("epsilon")};
  return [launch, centred, what](const KernelCall& now, Stream stream) {
    const auto &in = now.inputs, &out = now.outputs;
    check_queued(run_layer_norm(launch,
                                {in[0].data, in[1].data, centred ? in[2].data : nullptr,
                                 out[0].data, centred ? out[1].data : nullptr, out.back().data},
                                stream),
                 what);
  };
}

Launch load_norm_grad(const KernelCall& call, bool centred, const char* what) {
  const LayerNormLaunch launch{call.inputs.at(1).type.dtype, call.inputs.at(3).type.elements(),
                               call.inputs.at(2).type.elements(), 0};
  return [launch, centred, what](const KernelCall& now, Stream stream) {
    const auto &in = now.inputs, &out = now.outputs;
    const std::size_t rstd = centred ? 4 : 3;
    check_queued(
        run_layer_norm_grad(launch,
                            {in[0].data, in[1].data, in[2].data, centred ? in[3].data : nullptr,
                             in[rstd].data, in.size() > rstd + 1 ? in[rstd + 1].data : nullptr,
                             out[0].data, out[1].data, centred ? out[2].data : nullptr},
                            reinterpret_cast<double*>(now.workspace), stream),
        what);
  };
}

}  // namespace

Launch load_layer_norm(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_norm(call, true, "layer normalisation");
}

Launch load_layer_norm_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_norm_grad(call, true, "gradient of layer normalisation");
}

Launch load_rms_norm(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_norm(call, false, "RMS normalisation");
}

Launch load_rms_norm_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_norm_grad(call, false, "gradient of RMS normalisation");
}

}  // namespace alpa::cuda
