#pragma once
/// Clears many tensors in one launch, such as accumulators at the start of a step.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// Bytes to clear, from a multiple of 16 on.
struct ClearedBytes {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

/// Chunks of `kClearedChunk` bytes, each cleared by a block.
inline constexpr std::int64_t kClearedChunk = 32768;
constexpr std::int64_t chunks_of(const ClearedBytes& stretch) {
  return (stretch.bytes + kClearedChunk - 1) / kClearedChunk;
}

/// Every byte becomes 0. `stretches`: `count` of them, host memory, read before the call returns.
Status run_clear(const ClearedBytes* stretches, int count, Stream stream);

}  // namespace alpa::cuda
