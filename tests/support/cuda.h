#pragma once
/// Whether tests of the CUDA backend can run.
#include <cstdio>

#include "src/cuda_loader/cuda_library.h"

namespace alpa::testing {

/// True, and says so in one line, if there is no CUDA device: a test returns then.
inline bool no_cuda() {
  static const bool absent = [] {
    const CudaSupport& cuda = cuda_support();
    if (!cuda.usable()) std::printf("skipped: %s\n", cuda.reason.c_str());
    return !cuda.usable();
  }();
  return absent;
}

/// The same where so many devices neither have a card each nor share the only one.
inline bool no_cuda(int devices) {
  const int cards = cuda_support().devices;
  const bool too_few = cards > 1 && devices > cards;
  if (too_few) std::printf("skipped: %d devices, but %d cards\n", devices, cards);
  return no_cuda() || too_few;
}

}  // namespace alpa::testing
