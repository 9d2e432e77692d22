#pragma once
/// Cross entropy over the classes of the last dimension: contracts of `cpu::cross_entropy` and its
/// gradient. A warp or a block reads a row once, in 16-byte accesses wherever rows begin. Sums are
/// taken in the type of a row's numbers, f32 or f64, in an order that the shape alone determines.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

struct CrossEntropyLaunch {
  DType dtype = DType::f32;          ///< of x and dx; a row's numbers are f32, of f64 f64
  std::int64_t rows = 0, width = 0;  ///< the held classes of every row
  std::int64_t first = 0;            ///< held class
  double share = 0, weight = 1;      ///< in the target: of every class, of the label beyond
};

Status run_cross_entropy(const CrossEntropyLaunch& launch, const void* x,
                         const std::int32_t* labels, void* lse, void* target, Stream stream);

/// dx may be x.
struct CrossEntropyGradTensors {
  const void* x;
  const std::int32_t* labels;
  const void *lse, *dlse, *dtarget;
  void* dx;
};
Status run_cross_entropy_grad(const CrossEntropyLaunch& launch,
                              const CrossEntropyGradTensors& tensors, Stream stream);

}  // namespace alpa::cuda
