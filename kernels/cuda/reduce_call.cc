// kernels/cuda/reduce_call.cc — launches of reductions from kernel calls
#include "kernels/cuda/reduce_call.h"

#include <memory>

#include "alpa/base/error.h"

namespace alpa::cuda {

ReduceLaunch reduce_call(std::string_view op, ReduceOp reduction, const KernelCall& call) {
  const TensorType &x = call.inputs.at(0).type, &y = call.outputs.at(0).type;
  const auto reduce = std::make_unique<bool[]>(x.shape.size());
  for (std::int64_t axis : call.attributes->integers("axes")) reduce[axis] = true;
  ReduceLaunch launch;
  if (!plan_reduce(launch, reduction, x.dtype, y.dtype, x.rank(), x.shape.data(), reduce.get()))
    fail_dims(op, x);
  return launch;
}

void fail_dims(std::string_view op, const TensorType& type) {
  fail(
      "{}: {} has too many dimensions: the CUDA kernels take at most {} after adjacent ones are "
      "merged; reshape it to fewer dimensions",
      op, to_string(type), kMaxDims);
}

}  // namespace alpa::cuda
