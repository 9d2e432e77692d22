#pragma once
/// Convolutions as operations of cuDNN's graph interface.
#include "dnn_plans.h"
#include "kernels/cuda/convolution_plan.h"

namespace alpa::cuda {

/// Numbers of the tensors, and of their gradients.
inline constexpr std::int64_t kDnnX = 1, kDnnKernel = 2, kDnnY = 3;

/// The operation on x [B, H, W, C], kernel [F, kh, kw, C / groups] and y [B, H', W', F], all dense,
/// summed in f32. Throws Error with cuDNN's reason if the extents do not belong together.
DnnDescriptor dnn_convolution(const ConvolutionLaunch& launch);

/// The same, to be computed.
DnnProblem convolution_problem(const ConvolutionLaunch& launch);

}  // namespace alpa::cuda
