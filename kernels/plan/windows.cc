// kernels/plan/windows.cc — shapes of convolutions and poolings from their tensors
#include "kernels/plan/windows.h"

#include "src/tensor/kernel.h"

namespace alpa::kernels {

ConvolutionShape convolution_shape(const KernelTensor& x, const KernelTensor& kernel,
                                   const KernelTensor& y, const Attributes& attributes) {
  const Shape &from = x.type.shape, &taps = kernel.type.shape, &to = y.type.shape;
  const auto &stride = attributes.integers("stride"), &dilation = attributes.integers("dilation"),
             &padding = attributes.integers("padding");
  return {.batch = from[0],
          .channels = from[3],
          .features = to[3],
          .groups = taps[2] == 0 ? 1 : from[3] / taps[2],
          .h = {from[1], to[1], taps[0], stride[0], dilation[0], padding[0]},
          .w = {from[2], to[2], taps[1], stride[1], dilation[1], padding[2]}};
}

PoolingShape pooling_shape(const KernelTensor& x, const KernelTensor& y,
                           const Attributes& attributes) {
  const Shape &from = x.type.shape, &to = y.type.shape;
  const auto &window = attributes.integers("window"), &stride = attributes.integers("stride"),
             &padding = attributes.integers("padding");
  return {.batch = from[0],
          .channels = from[3],
          .h = {from[1], to[1], window[0], stride[0], 1, padding[0]},
          .w = {from[2], to[2], window[1], stride[1], 1, padding[2]}};
}

}  // namespace alpa::kernels
