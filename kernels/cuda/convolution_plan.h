#pragma once
/// Convolutions through cuDNN, planned from types alone, so that scratch memory is known without a
/// card.
#include <string>
#include <string_view>

#include "kernels/cuda/convolution.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

/// A call of conv2d, conv2d_grad_x or conv2d_grad_kernel.
ConvolutionLaunch convolution_launch(std::string_view op, const KernelCall& call);

/// "conv2d_grad_x f32 x 2,8,8,16 kernel 3,3,16,32 y 2,4,4,32 stride 2,2 dilation 1,1 padding
/// 1,1,1,1": equal texts mean equal problems.
std::string to_string(const ConvolutionLaunch& launch);

/// Whether cuDNN is asked for the convolution: bf16, f16 and f32, no extent 0.
bool suits_dnn(const ConvolutionLaunch& launch);

/// Padding after the last row or column: as before the first where that gives the same windows
/// (cuDNN has more engines for equal padding), else the least that does.
std::int64_t padding_after(const kernels::WindowDim& dim);

/// Scratch memory of a convolution through cuDNN, which takes the kernel as [F, kh, kw, C /
/// groups]: a transposed copy comes first; cuDNN's workspace begins at a multiple of kDnnAlignment.
struct ConvolutionScratch {
  std::int64_t workspace = 0;        ///< offset behind the first multiple of kDnnAlignment
  std::int64_t workspace_bytes = 0;  ///< of cuDNN, at most
  std::int64_t bytes = 0;            ///< all
};
inline constexpr std::int64_t kDnnAlignment = 256;
/// All zero unless `suits_dnn`. The workspace is min(256 MiB, 2 · bytes of x, kernel and y).
ConvolutionScratch convolution_scratch(const ConvolutionLaunch& launch);

}  // namespace alpa::cuda
