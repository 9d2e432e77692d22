#pragma once
/// A call of `dispatch`, `combine` or `expert_products`, as CPU and CUDA kernels see it.
#include <cstdint>

#include "alpa/base/dtype.h"

namespace alpa {
struct KernelTensor;
}

namespace alpa::kernels {

/// Tokens [G, S, M] with K choices each, and what a device has of the experts' [E, G, C, M]: of
/// `all` experts those from `first` on.
struct ExpertsShape {
  DType dtype = DType::f32;
  std::int64_t groups = 0, tokens = 0, choices = 0, width = 0;
  std::int64_t all = 0, first = 0, experts = 0, capacity = 0;

  std::int64_t rows() const { return experts * groups * capacity; }
};

/// `places`: i32 [G, S, K]; `held`: [E, G, C, M].
ExpertsShape experts_shape(const KernelTensor& places, const KernelTensor& held);

}  // namespace alpa::kernels
