// src/cuda/load/pooling.cc — loads max_pool and its gradient
#include "kernels/cuda/pooling.h"
#include "kernels/plan/windows.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

PoolingLaunch pooling_of(const KernelCall& call, const KernelTensor& x, const KernelTensor& y) {
  return {x.type.dtype, kernels::pooling_shape(x, y, *call.attributes)};
}

}  // namespace

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
