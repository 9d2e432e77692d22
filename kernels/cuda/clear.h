#pragma once
/// Clears many tensors in one launch, such as accumulators at the start of a step.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// Stretches that a launch takes; more are several launches.
inline constexpr int kMaxCleared = 192;

/// Bytes to clear, from a multiple of 16 on.
struct ClearedBytes {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

/// Every byte becomes 0. `stretches`: `count` of them, host memory, read before the call returns.
Status run_clear(const ClearedBytes* stretches, int count, Stream stream);

}  // namespace alpa::cuda
