#pragma once
/// Collectives and messages between processes whose devices share a card, where NCCL refuses to
/// join them. What leaves a process is copied to pinned host memory and sent by the launch's own
/// messages; what comes is read there by the kernels of the one-card group (`queue_copies`), so
/// every sum has the bits of logical devices in one process. No host thread waits: `queue` returns
/// false until the peers' part is here. So nothing of this can be captured.
#include <memory>
#include <vector>

#include "channel.h"
#include "collective_group.h"
#include "src/processes/world.h"

namespace alpa::cuda {

/// The group of members that are in the processes `ranks`, this one among them. `first_tag`: of as
/// many tags as members, the same in all of them. Throws Error if there are more than kMaxMembers.
std::unique_ptr<CollectiveGroup> make_staged_group(processes::World& world, std::vector<int> ranks,
                                                   int first_tag);

/// One side of a lane; the other one is in process `peer`.
std::unique_ptr<Channel> make_staged_channel(processes::World& world, int peer, int tag);

}  // namespace alpa::cuda
