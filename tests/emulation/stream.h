#pragma once
/// Streams: queues that a host thread each works off. The rules of world.h hold.
#include "graph.h"
#include "world.h"

namespace alpa::emulation {

struct Item {
  Work work;
  NodeKind kind;
  std::vector<TicketPtr> after;  ///< of other streams
  TicketPtr ticket;
};

}  // namespace alpa::emulation

struct CUstream_st {
  int device = 0;
  bool blocking = true;  ///< in order with the default stream
  int priority = 0;
  bool closing = false, started = false;
  std::deque<alpa::emulation::Item> queue;
  alpa::emulation::TicketPtr last;      ///< of what was queued last; null at first
  alpa::emulation::CapturePtr capture;  ///< that it takes part in
  std::vector<int> tail;                ///< its last nodes of that
};

namespace alpa::emulation {

/// The stream of a handle: nullptr and cudaStreamLegacy stand for the
/// current device's default stream.
cudaStream_t resolve(cudaStream_t stream);

/// Queues `work` on `stream` behind `after`, or makes it a node if the stream is captured.
/// `ticket`: what tells when it is done, null in a capture.
cudaError_t enqueue(cudaStream_t stream, Work work, NodeKind kind,
                    std::vector<TicketPtr> after = {}, TicketPtr* ticket = nullptr);

/// The error of a call that waits for `stream`, if captures forbid that.
cudaError_t check_wait(cudaStream_t stream);

/// Waits until it is done, which then comes before what the calling thread does next.
void wait_for(Lock& lock, const TicketPtr& ticket);
/// Everything that was queued on a device.
void wait_for_device(Lock& lock, int device);

}  // namespace alpa::emulation
