#pragma once
/// Functions called by kernels that `elementwise_source` generates. Device code only; the run-time
/// compiler sees only this header and its includes.
#include "kernels/cuda/pack.h"

namespace alpa::cuda {

template <class S, class T>
__device__ inline S widen(T x) {
  return Element<T>::template widen<S>(x);
}
template <class T, class S>
__device__ inline void put(T& to, S x) {
  to = Element<T>::template narrow<S>(x);
}

/// out[i] = x[at(e + i)]
template <class T, int n, class Index, class At>
__device__ inline void load_each(T (&out)[n], const T* x, Index e, const At& at) {
#pragma unroll
  for (int i = 0; i < n; ++i) out[i] = x[at(e + i)];
}

}  // namespace alpa::cuda
