#pragma once
/// Interface for sending boxes of tensors from one device to another.
#include <memory>
#include <span>

#include "kernels/cuda/launch.h"
#include "nccl_group.h"
#include "src/lower/device_program.h"
#include "src/tensor/kernel.h"

namespace alpa::cuda {

/// One side of a message.
struct MessageEnd {
  KernelTensor tensor;             ///< that holds the box, with a device pointer
  std::byte* workspace = nullptr;  ///< see `message_scratch_bytes` (src/lower/memory_plan.h)
  Stream stream = nullptr;         ///< of the lane, on this side's card
};

class Channel {
 public:
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Queues that `box` of one tensor is copied to where the other one has it. Null: another process
  /// or thread queues that side's part. Waits for nothing. Throws Error with the message of CUDA or
  /// NCCL.
  virtual void queue(const lower::Message& box, const MessageEnd* from, const MessageEnd* to) = 0;

  /// Throws Error if the peer was lost or a queued message failed.
  virtual void check_health() {}
  /// Makes everything queued end soon; the channel cannot be used afterwards.
  virtual void abort() noexcept {}

 protected:
  Channel() = default;
};

/// Between logical devices of the current card: one copy on the receiver's stream, which must
/// come behind the sender's.
std::unique_ptr<Channel> make_copy_channel();

/// Between two cards, through a communicator of NCCL, which it ends: rank 0 sends, rank 1
/// receives. `sides`: those in this process. `still_well` as in `make_nccl_group`.
std::unique_ptr<Channel> make_nccl_channel(std::span<const NcclRank> sides,
                                           const StillWell& still_well = {});

}  // namespace alpa::cuda
