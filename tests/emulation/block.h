#pragma once
/// Runs the blocks of a kernel on this host thread, one after the other, in an order that is drawn.
/// The threads of a block run one at a time, each until its next barrier, its warps in an order
/// drawn anew there, so that a missing barrier shows. For ThreadSanitizer nothing but barriers
/// and shuffles orders the threads of a block, and nothing orders blocks.
#include <cstddef>
#include <cstdint>
#include <functional>

#include "vector_types.h"

namespace alpa::emulation {

inline constexpr std::size_t kSharedBytes = 228 * 1024;  ///< shared memory of a multiprocessor
/// dynamic shared memory a block may have
inline constexpr std::size_t kMostSharedBytes = kSharedBytes - 1024;

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
  std::function<void()> body;  ///< one thread
  std::uint64_t seed = 0;      ///< of the order
  unsigned char shared_fill = 0;
};

/// Nullptr, or what was wrong: threads of a block that wait for ever. Called in a Seen.
const char* run_grid(const Grid& grid);

}  // namespace alpa::emulation
