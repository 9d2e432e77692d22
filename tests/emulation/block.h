#pragma once
/// Runs the blocks of a kernel on this host thread, one after the other. The threads of a
/// block run one at a time, each until its next barrier, in an order that alternates, so
/// that a missing barrier shows.
#include <cstddef>
#include <functional>

#include "vector_types.h"

namespace alpa::emulation {

inline constexpr std::size_t kSharedBytes = 227 * 1024;  ///< dynamic shared memory a block may have

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
  std::function<void()> body;  ///< one thread
};

/// Nullptr, or what was wrong: threads of a block that wait for ever. Called in a Seen.
const char* run_grid(const Grid& grid);

}  // namespace alpa::emulation
