// src/cuda/fused_kernel.cc — compiles and launches generated elementwise kernels
#include "fused_kernel.h"

#include <algorithm>

#include "compile_kernel.h"
#include "kernels/cuda/resident.h"
#include "status.h"

namespace alpa::cuda {

FusedKernel::FusedKernel(const kernels::ElementwisePlan& plan, const KernelCall& call,
                         int architecture)
    : outputs_(call.outputs.size()), elements_(plan.elements) {
  const FusedTile tile = fused_tile(plan, call);
  per_block_ = std::int64_t{kFusedThreads} * tile.pack * tile.packs;
  for (const kernels::ElementwiseInput& input : plan.inputs)
    packed_.push_back(input.kind != kernels::InputAccess::scalar);
  arguments_.resize(packed_.size() + outputs_ + 1);
  if (elements_ == 0) return;
  const std::vector<char> code = compile_kernel(elementwise_source(plan, call), architecture);
  cudaLibrary_t library = nullptr;
  check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
  library_.reset(library);
  check(cudaLibraryGetKernel(&kernel_, library, "fused"), "cudaLibraryGetKernel");
  // asked for so that the code is on the card before the first launch, which may be captured
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel_)),
        "cudaFuncGetAttributes");
  check(static_cast<cudaError_t>(
            resident_blocks(most_blocks_, reinterpret_cast<const void*>(kernel_), kFusedThreads)),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
}

void FusedKernel::Unload::operator()(CUlib_st* library) const { cudaLibraryUnload(library); }

Status FusedKernel::run(const void* const* inputs, void* const* outputs, Stream stream) const {
  if (elements_ == 0) return cudaSuccess;
  const auto is_aligned = [](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  };
  bool aligned = std::all_of(outputs, outputs + outputs_, is_aligned);
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    aligned = aligned && (!packed_[i] || is_aligned(inputs[i]));
    arguments_[i] = const_cast<const void**>(&inputs[i]);
  }
  for (std::size_t o = 0; o < outputs_; ++o)
    arguments_[packed_.size() + o] = const_cast<void**>(&outputs[o]);
  arguments_.back() = &aligned;
  const std::int64_t at_once = aligned ? per_block_ : kFusedThreads;
  const std::int64_t blocks = std::min(most_blocks_, (elements_ + at_once - 1) / at_once);
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel_),
                          dim3(static_cast<unsigned>(blocks)), dim3(kFusedThreads),
                          arguments_.data(), 0, stream);
}

}  // namespace alpa::cuda
