#pragma once
/// Shared by staged groups and channels: host memory that kernels and messages use, and looks at
/// what is under way there.
#include "handles.h"
#include "src/processes/world.h"
#include "status.h"

namespace alpa::cuda {

/// Pinned memory that grows; idle while it does.
class StagedMemory {
 public:
  void reserve(std::int64_t bytes) {
    if (bytes <= bytes_) return;
    block_.reset();
    bytes_ = 0;
    block_ = allocate_mapped(bytes);
    bytes_ = bytes;
  }
  std::byte* host(std::int64_t at = 0) const { return static_cast<std::byte*>(block_.get()) + at; }
  std::byte* on_card(std::int64_t at = 0) const { return device_address(block_) + at; }

 private:
  PinnedBlock block_;
  std::int64_t bytes_ = 0;
};

/// True if all work queued before the event was recorded is done, or if it was never recorded.
inline bool is_done(const EventHandle& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
  return status == cudaSuccess;
}

/// True if the message is done, or was never posted. Throws LaunchFailed if it was aborted.
inline bool is_over(const processes::Request& request, const processes::World& world) {
  const std::uint32_t state = request.state.load();
  if (state == processes::Request::kAborted) world.rethrow();
  return state != processes::Request::kPosted;
}

}  // namespace alpa::cuda
