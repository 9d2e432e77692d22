// src/cuda/load/experts.cc — loads dispatch, combine and expert_products
#include "kernels/cuda/experts.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

/// `held`: the tensor [E, G, C, M] of the call.
Launch load_moved(decltype(run_dispatch)* run, const KernelCall& call, const KernelTensor& held,
                  const char* what) {
  return [run, what, shape = kernels::experts_shape(call.inputs.at(1), held)](const KernelCall& now,
                                                                              Stream stream) {
    const ExpertsTensors tensors{now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                                 now.inputs.size() == 3 ? now.inputs[2].data : nullptr,
                                 now.outputs[0].data};
    check_queued(run(shape, tensors, stream), what);
  };
}

}  // namespace

Launch load_dispatch(const OpDef& op, const KernelCall& call, const Gpu&) {
  const Shape& places = call.inputs.at(1).type.shape;
  require(places.at(1) * places.at(2) <= kMaxChoices,
          "{}: the CUDA kernel takes at most {} choices of a group, not {}; use smaller groups",
          op.name, kMaxChoices, places[1] * places[2]);
  return load_moved(run_dispatch, call, call.outputs.at(0), "dispatch");
}

Launch load_combine(const OpDef&, const KernelCall& call, const Gpu&) {
  return load_moved(run_combine, call, call.inputs.at(0), "combine");
}

Launch load_expert_products(const OpDef&, const KernelCall& call, const Gpu&) {
  return [shape = kernels::experts_shape(call.inputs.at(1), call.inputs.at(2))](
             const KernelCall& now, Stream stream) {
    check_queued(run_expert_products(shape, now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                                     now.inputs[2].data, now.outputs[0].data, stream),
                 "products of tokens and results of experts");
  };
}

}  // namespace alpa::cuda
