#pragma once
/// Kernels for floating element types: from the type of a tensor to the type of its elements, and
/// the type that they are summed in.
#include <initializer_list>
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

/// visit(T{}, n): T stores `dtype`, n is a constant, the neighbours in a row of `width` elements
/// that a thread takes in one access: 16 bytes of them if addresses and rows allow it, else one.
template <class Visit>
Status with_packs(DType dtype, std::int64_t width, std::initializer_list<const void*> addresses,
                  const Visit& visit) {
  return with_floating(dtype, [&](auto element) {
    constexpr int n = 16 / static_cast<int>(sizeof(element));
    bool aligned = width % n == 0;
    for (const void* address : addresses) aligned = aligned && aligned16(address);
    if (aligned) return visit(element, std::integral_constant<int, n>());
    return visit(element, std::integral_constant<int, 1>());
  });
}

}  // namespace alpa::cuda
