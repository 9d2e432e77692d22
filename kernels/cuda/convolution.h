#pragma once
/// 2-D convolutions, NHWC: contracts of `cpu::conv2d` and its gradients. A thread per element of
/// the result, or a block per column of the kernel's gradient: right for every shape, far from a
/// card's peak. Sums are taken in float, of f64 in double, in an order that the shape determines.
#include "kernels/cuda/launch.h"
#include "kernels/plan/windows.h"

namespace alpa::cuda {

struct ConvolutionLaunch {
  DType dtype = DType::f32;  ///< of all three tensors
  kernels::ConvolutionShape shape;
};

/// (x, kernel) → y
Status run_conv2d(const ConvolutionLaunch& launch, const void* x, const void* kernel, void* y,
                  Stream stream);
/// (dy, kernel) → dx
Status run_conv2d_grad_x(const ConvolutionLaunch& launch, const void* dy, const void* kernel,
                         void* dx, Stream stream);
/// (x, dy) → dkernel of `elements` elements
Status run_conv2d_grad_kernel(const ConvolutionLaunch& launch, const void* x, const void* dy,
                              void* dkernel, std::int64_t elements, Stream stream);

}  // namespace alpa::cuda
