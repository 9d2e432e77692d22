#pragma once
/// Which process of a launch writes which part of a state.
#include <cstdint>
#include <span>
#include <vector>

#include "src/runtime/held_parts.h"

namespace alpa::checkpoint {

/// Where a box of a state is in a checkpoint.
struct BoxPlace {
  int rank = 0;             ///< of the process that writes it
  std::int64_t offset = 0;  ///< of its bytes in that process's snapshot, and in its shard
};

/// The places of `boxes`, of all processes. A box is written by a process that holds it: by the one
/// with the fewest bytes so far, larger boxes first. All processes find the same.
std::vector<BoxPlace> divide(std::span<const runtime::StateBox> boxes);

/// The boxes that `rank` writes, with their places in its snapshot.
std::vector<runtime::StateBox> share_of(int rank, std::span<const runtime::StateBox> boxes,
                                        std::span<const BoxPlace> places);

}  // namespace alpa::checkpoint
