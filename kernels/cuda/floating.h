#pragma once
/// Kernels for floating element types: from the type of a tensor to the type of its elements, and
/// the type that they are summed in.
#include <type_traits>

#include "kernels/cuda/device.h"

namespace alpa::cuda {

/// The type of what is computed from elements of type T.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Element i of x, to be computed with.
template <class T>
__device__ inline Sum<T> widened_at(const T* x, std::int64_t i) {
  return Element<T>::template widen<Sum<T>>(x[i]);
}

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
