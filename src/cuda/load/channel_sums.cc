// src/cuda/load/channel_sums.cc — loads channel_sums and channel_products
#include "kernels/cuda/channel_sums.h"

#include "kernels/plan/channel_rows.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

Launch load_sums(const KernelCall& call, bool squares) {
  const TensorType& x = call.inputs.at(0).type;
  const ChannelSums launch{x.dtype, kernels::channel_rows(x), x.shape.back()};
  return [launch, squares](const KernelCall& now, Stream stream) {
    check_queued(
        run_channel_sums(launch, now.inputs[0].data, squares ? nullptr : now.inputs[1].data,
                         now.outputs[0].data, now.outputs[1].data,
                         reinterpret_cast<double*>(now.workspace), stream),
        "sums of channels");
  };
}

}  // namespace

Launch load_channel_sums(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_sums(call, true);
}

Launch load_channel_products(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_sums(call, false);
}

}  // namespace alpa::cuda
