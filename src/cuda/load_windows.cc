// src/cuda/load_windows.cc — loads conv2d, max_pool and their gradients
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/pooling.h"
#include "kernels/plan/window_call.h"
#include "loads.h"

namespace alpa::cuda {
namespace {

ConvolutionLaunch convolution_of(const KernelCall& call, const KernelTensor& x,
                                 const KernelTensor& kernel, const KernelTensor& y) {
  return {x.type.dtype, kernels::convolution_shape(x, kernel, y, *call.attributes)};
}

PoolingLaunch pooling_of(const KernelCall& call, const KernelTensor& x, const KernelTensor& y) {
  return {x.type.dtype, kernels::pooling_shape(x, y, *call.attributes)};
}

}  // namespace

Launch load_conv2d(const OpDef&, const KernelCall& call, const Gpu&) {
  const ConvolutionLaunch launch =
      convolution_of(call, call.inputs.at(0), call.inputs.at(1), call.outputs.at(0));
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(
        run_conv2d(launch, now.inputs[0].data, now.inputs[1].data, now.outputs[0].data, stream),
        "conv2d");
  };
}

Launch load_conv2d_grad_x(const OpDef&, const KernelCall& call, const Gpu&) {
  const ConvolutionLaunch launch =
      convolution_of(call, call.outputs.at(0), call.inputs.at(1), call.inputs.at(0));
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(run_conv2d_grad_x(launch, now.inputs[0].data, now.inputs[1].data,
                                   now.outputs[0].data, stream),
                 "conv2d_grad_x");
  };
}

Launch load_conv2d_grad_kernel(const OpDef&, const KernelCall& call, const Gpu&) {
  const ConvolutionLaunch launch =
      convolution_of(call, call.inputs.at(0), call.outputs.at(0), call.inputs.at(1));
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(
        run_conv2d_grad_kernel(launch, now.inputs[0].data, now.inputs[1].data, now.outputs[0].data,
                               now.outputs[0].type.elements(), stream),
        "conv2d_grad_kernel");
  };
}

Launch load_max_pool(const OpDef&, const KernelCall& call, const Gpu&) {
  const PoolingLaunch launch = pooling_of(call, call.inputs.at(0), call.outputs.at(0));
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(run_max_pool(launch, now.inputs[0].data, now.outputs[0].data, stream), "max_pool");
  };
}

Launch load_max_pool_grad(const OpDef&, const KernelCall& call, const Gpu&) {
  const PoolingLaunch launch = pooling_of(call, call.inputs.at(1), call.inputs.at(0));
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(run_max_pool_grad(launch, now.inputs[0].data, now.inputs[1].data,
                                   now.outputs[0].data, stream),
                 "max_pool_grad");
  };
}

}  // namespace alpa::cuda
