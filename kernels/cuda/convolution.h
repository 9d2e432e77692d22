#pragma once
/// 2-D convolutions, NHWC: contracts of `cpu::conv2d` and its gradients, for every shape and type,
/// but far from a card's peak (cuDNN computes most, see convolution_plan.h): a thread per element
/// of the result, or a block per column of the kernel's gradient. Sums are taken in float, of f64
/// in double, in an order that the shape determines.
#include "kernels/cuda/launch.h"
#include "kernels/plan/windows.h"

namespace alpa::cuda {

/// Which tensor is computed from the two others: y from (x, kernel), dx from (dy, kernel), dkernel
/// from (x, dy). x, y and kernel also stand for their gradients.
enum class ConvolutionResult : std::uint8_t { y, x, kernel };

struct ConvolutionLaunch {
  ConvolutionResult result = ConvolutionResult::y;
  DType dtype = DType::f32;  ///< of all three tensors
  kernels::ConvolutionShape shape;

  std::int64_t x_elements() const;
  std::int64_t kernel_elements() const;
  std::int64_t y_elements() const;
};

/// The tensors in the order of the operator's operands and result.
Status run_convolution(const ConvolutionLaunch& launch, const void* first, const void* second,
                       void* result, Stream stream);

}  // namespace alpa::cuda
