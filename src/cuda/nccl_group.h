#pragma once
/// Collectives among cards through NCCL. All ranks call the same collectives in the same order;
/// element types of 16 bits are rounded after every addition, and the order of additions is NCCL's,
/// the same in every run. Workspace of a call: `nccl_scratch_bytes` (src/lower/memory_plan.h). A
/// CUDA graph that holds collectives must be gone before its group.
#include <functional>
#include <memory>
#include <string>

#include "collective_group.h"

struct ncclComm;  // of nccl.h

namespace alpa::cuda {

/// A rank of a communicator and the card it is on, in this process.
struct NcclCard {
  int index = 0;    ///< the rank
  int ordinal = 0;  ///< of the card
};
/// The same, joined.
struct NcclRank {
  int index = 0, ordinal = 0;
  ncclComm* comm = nullptr;
};

/// Throws Error if another process of the launch was lost; asked while waiting for them.
using StillWell = std::function<void()>;

/// The id that all processes of a group share: one of them makes it and sends it to the others
/// unchanged.
std::string make_nccl_id();
inline constexpr std::size_t kNcclIdBytes = 128;

/// The group of a communicator of `size` ranks, as `ranks` see it, which one thread queues for; it
/// ends them. `still_well`: for ranks of several processes, which must not hang when one is lost;
/// else null.
std::unique_ptr<CollectiveGroup> make_nccl_group(int size, std::vector<NcclRank> ranks,
                                                 const StillWell& still_well = {});

}  // namespace alpa::cuda
