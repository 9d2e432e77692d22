// kernels/cuda/convolution_plan.cc — convolutions as cuDNN takes them, and the scratch memory they
// need
#include <fmt/core.h>

#include <algorithm>

#include "kernels/cuda/convolution_plan.h"
#include "kernels/cuda/rounded_up.h"
#include "kernels/plan/windows.h"

namespace alpa::cuda {
namespace {

constexpr std::string_view kNames[] = {"conv2d", "conv2d_grad_x", "conv2d_grad_kernel"};

/// Rows or columns that a window reaches over.
std::int64_t span_of(const kernels::WindowDim& d) { return (d.size - 1) * d.dilation + 1; }

/// Engines that convert layouts or pad channels keep a copy of every tensor, split sums as much
/// again. Of cuDNN 9.19's proposals for 504 convolutions of ResNet-50, Wide-ResNet and MobileNet, 8
/// on an H200 and 20 on an A100 have a more promising engine that needs more.
std::int64_t workspace_limit(const ConvolutionLaunch& launch) {
  constexpr std::int64_t kMost = std::int64_t{256} << 20;
  const std::int64_t elements =
      launch.x_elements() + launch.kernel_elements() + launch.y_elements();
  return std::min(kMost, rounded_up(2 * elements * static_cast<std::int64_t>(size_of(launch.dtype)),
                                    kDnnAlignment));
}

}  // namespace

std::int64_t ConvolutionLaunch::x_elements() const {
  return shape.batch * shape.h.in * shape.w.in * shape.channels;
}
std::int64_t ConvolutionLaunch::kernel_elements() const {
  if (shape.groups == 0) return 0;
  return shape.h.size * shape.w.size * (shape.channels / shape.groups) * shape.features;
}
std::int64_t ConvolutionLaunch::y_elements() const {
  return shape.batch * shape.h.out * shape.w.out * shape.features;
}

ConvolutionLaunch convolution_launch(std::string_view op, const KernelCall& call) {
  const KernelTensor &first = call.inputs.at(0), &second = call.inputs.at(1),
                     &result = call.outputs.at(0);
  const auto shape_of = [&](const KernelTensor& x, const KernelTensor& kernel,
                            const KernelTensor& y) {
    return kernels::convolution_shape(x, kernel, y, *call.attributes);
  };
  const DType dtype = result.type.dtype;
  if (op == kNames[1]) return {ConvolutionResult::x, dtype, shape_of(result, second, first)};
  if (op == kNames[2]) return {ConvolutionResult::kernel, dtype, shape_of(first, result, second)};
  return {ConvolutionResult::y, dtype, shape_of(first, second, result)};
}

std::string to_string(const ConvolutionLaunch& launch) {
  const kernels::ConvolutionShape& s = launch.shape;
  const kernels::WindowDim &h = s.h, &w = s.w;
  return fmt::format(
      "{} {} x {},{},{},{} kernel {},{},{},{} y {},{},{},{} stride {},{} dilation {},{} padding "
      "{},{},{},{}",
      kNames[static_cast<int>(launch.result)], name_of(launch.dtype), s.batch, h.in, w.in,
      s.channels, h.size, w.size, s.channels / std::max<std::int64_t>(1, s.groups), s.features,
      s.batch, h.out, w.out, s.features, h.stride, w.stride, h.dilation, w.dilation, h.pad,
      padding_after(h), w.pad, padding_after(w));
}

bool suits_dnn(const ConvolutionLaunch& launch) {
  return launch.dtype != f64 && launch.x_elements() > 0 && launch.kernel_elements() > 0 &&
         launch.y_elements() > 0;
}

std::int64_t padding_after(const kernels::WindowDim& d) {
  const std::int64_t least =
      std::max<std::int64_t>(0, (d.out - 1) * d.stride + span_of(d) - d.in - d.pad);
  const bool equal = d.pad >= least && (d.in + 2 * d.pad - span_of(d)) / d.stride + 1 == d.out;
  return equal ? d.pad : least;
}

ConvolutionScratch convolution_scratch(const ConvolutionLaunch& launch) {
  if (!suits_dnn(launch)) return {};
  ConvolutionScratch scratch;
  scratch.workspace = rounded_up(
      launch.kernel_elements() * static_cast<std::int64_t>(size_of(launch.dtype)), kDnnAlignment);
  scratch.workspace_bytes = workspace_limit(launch);
  scratch.bytes = scratch.workspace + scratch.workspace_bytes + kDnnAlignment;
  return scratch;
}

}  // namespace alpa::cuda
