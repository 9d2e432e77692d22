#pragma once
/// From the calls of convolutions and poolings to their shapes.
#include "kernels/plan/windows.h"
#include "src/tensor/kernel.h"

namespace alpa::kernels {

/// Attributes: "stride", "dilation" (integers: rows, columns), "padding" (before and after the
/// rows, before and after the columns). The number of groups follows from x and the kernel.
ConvolutionShape convolution_shape(const KernelTensor& x, const KernelTensor& kernel,
                                   const KernelTensor& y, const Attributes& attributes);

/// Attributes: "window", "stride" and "padding", as above.
PoolingShape pooling_shape(const KernelTensor& x, const KernelTensor& y,
                           const Attributes& attributes);

}  // namespace alpa::kernels
