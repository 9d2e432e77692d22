#pragma once
/// Convolutions and their gradients by oneDNN's direct algorithms. Images are read and written as
/// they are stored. The kernel is copied to the layout that the library wants, by every call.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cpu/dnnl.h"

namespace alpa {
class ThreadTeam;
struct KernelTensor;
}  // namespace alpa

namespace alpa::cpu {

/// A convolution, prepared for a team of `threads`, which share its images. What a task computes
/// depends on the shape alone, so results do not depend on threads.
class DnnlConvolution {
 public:
  /// `dtype`: f32, or one of which the processor has a matrix unit.
  DnnlConvolution(const kernels::ConvolutionShape& shape, ConvolutionPass pass, DType dtype,
                  int threads);
  ~DnnlConvolution();
  DnnlConvolution(const DnnlConvolution&) = delete;
  DnnlConvolution& operator=(const DnnlConvolution&) = delete;

  /// False where oneDNN has no direct algorithm, or images are too few to be shared.
  bool usable() const;
  std::int64_t workspace_bytes() const;
  /// The tensors of the convolution, of which the pass writes one. `kernel` is as it is stored.
  void run(std::byte* x, std::byte* kernel, std::byte* y, std::byte* workspace,
           ThreadTeam& team) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace alpa::cpu
