// src/cuda/load/convolution.cc — loads conv2d and its gradients: through
// cuDNN, or our own kernels
#include <array>

#include "kernels/cuda/copy.h"
#include "src/cuda/dnn_convolution.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

/// Between the kernel [kh, kw, C / groups, F] of the operator and cuDNN's [F, kh, kw, C / groups].
CopyLaunch transposition(const ConvolutionLaunch& l, bool to_dnn) {
  const std::int64_t features = l.shape.features, taps = l.kernel_elements() / features;
  const std::array<std::int64_t, 2> extent = to_dnn ? std::array{features, taps}
                                                    : std::array{taps, features},
                                    from = {1, extent[0]}, to = {extent[1], 1};
  CopyLaunch copy;
  const bool planned =
      plan_copy(copy, static_cast<int>(size_of(l.dtype)), 2, extent.data(), from.data(), to.data());
  invariant(planned, "transposition of {}", to_string(l));
  return copy;
}

Launch load_plain(std::string_view op, const ConvolutionLaunch& launch) {
  return [launch, name = std::string(op)](const KernelCall& now, Stream stream) {
    check_queued(run_convolution(launch, now.inputs[0].data, now.inputs[1].data,
                                 now.outputs[0].data, stream),
                 name.c_str());
  };
}

/// A convolution through cuDNN, with its variant packs.
struct DnnConvolution {
  ConvolutionLaunch launch;
  std::shared_ptr<const DnnPlan> plan;
  CopyLaunch transposed;
  ConvolutionScratch scratch;
  mutable DnnPacks packs;

  void queue(const KernelCall& now, Stream stream) const;
};

void DnnConvolution::queue(const KernelCall& now, Stream stream) const {
  std::byte* const kernel = aligned(now.workspace, kDnnAlignment);
  std::byte *const first = now.inputs[0].data, *const second = now.inputs[1].data,
                   *const result = now.outputs[0].data;
  const bool makes_kernel = launch.result == ConvolutionResult::kernel;
  std::byte* const x = launch.result == ConvolutionResult::x ? result : first;
  std::byte* const y = launch.result == ConvolutionResult::y   ? result
                       : launch.result == ConvolutionResult::x ? first
                                                               : second;
  if (!makes_kernel) check_queued(run_copy(transposed, second, kernel, stream), "kernel's copy");
  const std::array<std::pair<std::int64_t, void*>, 3> tensors = {
      std::pair{kDnnX, x}, std::pair{kDnnKernel, kernel}, std::pair{kDnnY, y}};
  plan->run(packs.of(tensors, kernel + scratch.workspace), stream);
  if (makes_kernel) check_queued(run_copy(transposed, kernel, result, stream), "kernel's copy");
}

}  // namespace

Launch load_convolution(const OpDef& op, const KernelCall& call, const Gpu& card) {
  const ConvolutionLaunch launch = convolution_launch(op.name, call);
  if (!suits_dnn(launch) || card.dnn == nullptr) return load_plain(op.name, launch);
  std::shared_ptr<const DnnPlan> plan = card.dnn->load(convolution_problem(launch), card.node);
  if (!plan) return load_plain(op.name, launch);
  const bool to_dnn = launch.result != ConvolutionResult::kernel;
  const auto loaded = std::make_shared<DnnConvolution>(DnnConvolution{
      launch, std::move(plan), transposition(launch, to_dnn), convolution_scratch(launch), {}});
  return [loaded](const KernelCall& now, Stream stream) { loaded->queue(now, stream); };
}

}  // namespace alpa::cuda
