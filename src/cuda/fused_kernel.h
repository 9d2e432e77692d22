#pragma once
/// Elementwise programs compiled at run time, for speed, and for programs too long
/// for the interpreting kernel.
#include <memory>
#include <vector>

#include "kernels/cuda/elementwise_lower.h"

struct CUlib_st;
struct CUkern_st;

namespace alpa::cuda {

/// One program, loaded on the current device. Belongs to one device thread.
class FusedKernel {
 public:
  /// Compiles and loads `elementwise_source(plan, call)`. Throws Error if the device refuses it.
  FusedKernel(const kernels::ElementwisePlan& plan, const KernelCall& call, int architecture);

  /// Queues the kernel, as `run_elementwise` does.
  Status run(const void* const* inputs, void* const* outputs, Stream stream) const;

 private:
  std::vector<bool> packed_;  ///< inputs that are read in packs when all of them are aligned
  std::size_t outputs_;
  mutable std::vector<void*> arguments_;  ///< filled by `run`, which allocates nothing
  /// elements, and how many of them a block computes at once
  std::int64_t elements_, per_block_;
  std::int64_t most_blocks_ = 0;  ///< that are resident at once
  struct Unload {
    void operator()(CUlib_st* library) const;
  };
  std::unique_ptr<CUlib_st, Unload> library_;
  CUkern_st* kernel_ = nullptr;
};

}  // namespace alpa::cuda
