#pragma once
/// Copies from global to shared memory beside a thread's other work (PTX ISA, cp.async). Device
/// code only; where it is not compiled for a card, a copy is made when it is waited for.
#include "kernels/cuda/device.h"

namespace alpa::cuda {

/// Those of one thread, at most `most` between two waits.
template <int most>
class AsyncCopies {
 public:
  /// *to = *from, or zeros unless `there`; both are multiples of 16 bytes.
  __device__ void copy(uint4* to, const void* from, bool there) {
#if defined(__CUDA_ARCH__)
    const auto address = static_cast<unsigned int>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address),
                 "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
                 : "memory");
#else
    pending_[count_++] = {to, there ? static_cast<const uint4*>(from) : nullptr};
#endif
  }

  /// All copies so far are made; other threads see them behind a barrier.
  __device__ void wait() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_all;" ::: "memory");
#else
    for (; count_ > 0; --count_) {
      const Pending& copy = pending_[count_ - 1];
      *copy.to = copy.from != nullptr ? *copy.from : uint4{0, 0, 0, 0};
    }
#endif
  }

#if !defined(__CUDA_ARCH__)
 private:
  struct Pending {
    uint4* to;
    const uint4* from;
  };
  Pending pending_[most];
  int count_ = 0;
#endif
};

}  // namespace alpa::cuda
