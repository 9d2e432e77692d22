#pragma once
/// Largest elements of windows, NHWC, and their gradient: contracts of `cpu::max_pool` and
/// `cpu::max_pool_grad`. A thread per pack of 16 bytes of the result where channels allow it.
#include "kernels/cuda/launch.h"
#include "kernels/plan/windows.h"

namespace alpa::cuda {

struct PoolingLaunch {
  DType dtype = DType::f32;
  kernels::PoolingShape shape;
};

Status run_max_pool(const PoolingLaunch& launch, const void* x, void* y, Stream stream);
Status run_max_pool_grad(const PoolingLaunch& launch, const void* dy, const void* x, void* dx,
                         Stream stream);

}  // namespace alpa::cuda
