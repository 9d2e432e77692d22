#pragma once
/// Host code of kernels for floating element types: from the type of a tensor to
/// the type of its elements.
#include "kernels/cuda/device.h"

namespace alpa::cuda {

/// visit(T{}) with the floating type that stores `dtype`.
template <class Visit>
Status with_floating(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::bf16: return visit(Bf16());
    case DType::f16: return visit(F16());
    case DType::f64: return visit(double());
    default: return visit(float());
  }
}

}  // namespace alpa::cuda
