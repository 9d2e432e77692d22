#pragma once
/// Whether tests of the CUDA backend can run.
#include <cstdio>

#include "alpa/device/cuda_library.h"

namespace alpa::test {

/// True, and says so in one line, if there is no CUDA device: a test returns then.
inline bool no_cuda() {
  static const bool absent = [] {
    const CudaSupport& cuda = cuda_support();
    if (!cuda.usable()) std::printf("skipped: %s\n", cuda.reason.c_str());
    return !cuda.usable();
  }();
  return absent;
}

}  // namespace alpa::test
