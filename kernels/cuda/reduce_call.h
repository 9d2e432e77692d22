#pragma once
/// Turns a call of a reduction into its launch; shared by loading and by the
/// planning of scratch memory.
#include <string_view>

#include "kernels/cuda/reduce.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

/// The launch of a call with attribute "axes". Throws Error naming `op` if more than
/// kMaxDims dimensions remain.
ReduceLaunch reduce_call(std::string_view op, ReduceOp reduction, const KernelCall& call);

/// Throws the Error of a tensor with more dimensions than the kernels of `op` walk.
[[noreturn]] void fail_dims(std::string_view op, const TensorType& type);

}  // namespace alpa::cuda
