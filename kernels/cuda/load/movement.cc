// kernels/cuda/load/movement.cc — loads operators that only move elements:
// transpose, broadcast, reshape
#include <vector>

#include "kernels/cuda/copy.h"
#include "kernels/plan/strided_copy_plan.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

/// Each element of the dense result is x's element at the same index, addressed by `strides`.
Launch gather(const OpDef& op, const KernelCall& call, const std::vector<std::int64_t>& strides) {
  const TensorType& y = call.outputs.at(0).type;
  const std::vector<std::int64_t> dense = kernels::dense_strides(y.shape);
  CopyLaunch launch;
  if (!plan_copy(launch, static_cast<int>(size_of(y.dtype)), y.rank(), y.shape.data(),
                 strides.data(), dense.data()))
    fail_dims(op.name, y);
  return [launch](const KernelCall& now, Stream stream) {
    check_queued(run_copy(launch, now.inputs[0].data, now.outputs[0].data, stream), "strided copy");
  };
}

}  // namespace

Launch load_reshape(const OpDef& op, const KernelCall& call, const Gpu&) {
  return [copy = gather(op, call, kernels::dense_strides(call.outputs.at(0).type.shape))](
             const KernelCall& now, Stream stream) {
    if (now.inputs[0].data != now.outputs[0].data) copy(now, stream);
  };
}

Launch load_transpose(const OpDef& op, const KernelCall& call, const Gpu&) {
  const std::vector<std::int64_t> from = kernels::dense_strides(call.inputs.at(0).type.shape);
  std::vector<std::int64_t> strides;
  for (std::int64_t d : call.attributes->integers("permutation")) strides.push_back(from.at(d));
  return gather(op, call, strides);
}

Launch load_broadcast(const OpDef& op, const KernelCall& call, const Gpu&) {
  const Shape& x = call.inputs.at(0).type.shape;
  const std::vector<std::int64_t> from = kernels::dense_strides(x),
                                  &dims = call.attributes->integers("dims");
  std::vector<std::int64_t> strides(call.outputs.at(0).type.shape.size(), 0);
  for (std::size_t d = 0; d < x.size(); ++d)
    if (x[d] != 1) strides.at(dims[d]) = from[d];
  return gather(op, call, strides);
}

}  // namespace alpa::cuda
