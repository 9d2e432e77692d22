// src/cuda/dnn_convolution.cc — describes convolutions to cuDNN
#include "dnn_convolution.h"

namespace alpa::cuda {
namespace {

/// An operation's type, and its attributes for what all three have.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, kernel, y, convolution, alpha, beta;
};

/// Names by ConvolutionResult.
constexpr Names kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

/// A tensor of `count` images, cuDNN's dimensions being [count, channels, rows, columns], whose
/// channels are neighbours in memory.
DnnDescriptor images(std::int64_t number, DType dtype, std::int64_t count, std::int64_t channels,
                     std::int64_t rows, std::int64_t columns) {
  return dnn_tensor(number, dnn_type(dtype), {count, channels, rows, columns},
                    {rows * columns * channels, 1, columns * channels, channels});
}

DnnDescriptor windows(const kernels::WindowDim& h, const kernels::WindowDim& w) {
  DnnDescriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Shape{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Shape{h.pad, w.pad});
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Shape{padding_after(h), padding_after(w)});
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Shape{h.dilation, w.dilation});
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Shape{h.stride, w.stride});
  return std::move(convolution.finalize());
}

}  // namespace

DnnDescriptor dnn_convolution(const ConvolutionLaunch& launch) {
  const kernels::ConvolutionShape& s = launch.shape;
  const Names& names = kNames[static_cast<int>(launch.result)];
  DnnDescriptor operation(names.operation);
  operation.set(names.x, images(kDnnX, launch.dtype, s.batch, s.channels, s.h.in, s.w.in));
  operation.set(names.kernel, images(kDnnKernel, launch.dtype, s.features, s.channels / s.groups,
                                     s.h.size, s.w.size));
  operation.set(names.y, images(kDnnY, launch.dtype, s.batch, s.features, s.h.out, s.w.out));
  operation.set(names.convolution, windows(s.h, s.w));
  operation.set(names.alpha, 1.0F).set(names.beta, 0.0F);
  return std::move(operation.finalize());
}

DnnProblem convolution_problem(const ConvolutionLaunch& launch) {
  const auto operations = [launch] {
    std::vector<DnnDescriptor> one;
    one.push_back(dnn_convolution(launch));
    return one;
  };
  return {.key = to_string(launch),
          .subject = "convolutions run",
          .operations = operations,
          .operands = {{kDnnX, launch.dtype, launch.x_elements()},
                       {kDnnKernel, launch.dtype, launch.kernel_elements()},
                       {kDnnY, launch.dtype, launch.y_elements()}},
          .workspace_bytes = convolution_scratch(launch).workspace_bytes,
          .has_f32_products = launch.dtype == f32};
}

}  // namespace alpa::cuda
