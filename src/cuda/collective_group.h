#pragma once
/// Collectives among CUDA devices. One host thread queues for all members on a card, so that what
/// several devices do there can be captured as a whole; comm::Group, by contrast, is called by
/// every member's own thread.
#include <memory>
#include <span>

#include "kernels/cuda/launch.h"
#include "src/lower/device_program.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

/// A member of this process in one collective.
struct Member {
  int index = 0;  ///< in the group
  /// its work comes behind what was queued there, and before what will be
  Stream stream = nullptr;
  const KernelCall* tensors = nullptr;  ///< operands, results and workspace, with device pointers
};

class CollectiveGroup {
 public:
  virtual ~CollectiveGroup() = default;
  CollectiveGroup(const CollectiveGroup&) = delete;
  CollectiveGroup& operator=(const CollectiveGroup&) = delete;

  /// Queues one collective for all members of this process, in ascending order. Any number of
  /// tensors, sharded along any dimension, also unevenly; all_reduce may work in place. Waits for
  /// nothing. Throws Error with the message of CUDA or NCCL.
  virtual void queue(const lower::CollectiveCall& call, std::span<const Member> members) = 0;

  /// Throws Error if a peer was lost or a queued collective failed. Waiting host
  /// threads ask now and then.
  virtual void check_health() {}
  /// Ends all queued work soon, regardless of the peers; the group cannot be used afterwards.
  virtual void abort() noexcept {}

 protected:
  CollectiveGroup() = default;
};

/// `size` logical devices of the current card, all in this process: kernels that read all
/// members' memory. Elements are combined along the tree of comm/combine.h. Throws Error if size
/// exceeds kMaxMembers.
std::unique_ptr<CollectiveGroup> make_copy_group(int size);

}  // namespace alpa::cuda
