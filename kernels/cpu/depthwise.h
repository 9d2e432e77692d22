#pragma once
/// Convolutions in which every channel has a kernel of its own, [kh, kw, 1, C]: loops over
/// channels, without scratch. T is the type of computation, float or double.
#include "kernels/plan/windows.h"
#include "src/tensor/kernel.h"

namespace alpa::cpu {

/// (x, kernel) → y
template <class T>
void depthwise_forward(const KernelCall& call, const kernels::ConvolutionShape& shape);
/// (dy, kernel) → dx
template <class T>
void depthwise_grad_x(const KernelCall& call, const kernels::ConvolutionShape& shape);
/// (x, dy) → dkernel
template <class T>
void depthwise_grad_kernel(const KernelCall& call, const kernels::ConvolutionShape& shape);

}  // namespace alpa::cpu
