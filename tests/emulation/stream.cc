#include "stream.h"

#include <algorithm>
#include <thread>

#include "card_memory.h"

namespace alpa::emulation {
namespace {

/// Runs the work until it is done or the device has failed.
void run(Lock& lock, int device, const Work& work) {
  cudaError_t& fault = world().devices[static_cast<std::size_t>(device)].fault;
  std::shared_ptr<void> state;
  while (fault == cudaSuccess) {
    const std::uint64_t changes = world().changes;
    lock.unlock();
    bool done = true;
    cudaError_t error = cudaSuccess;
    try {
      done = work(state);
    } catch (cudaError_t thrown) {
      error = thrown;
    }
    lock.lock();
    if (error != cudaSuccess && fault == cudaSuccess) {
      fault = error;
      go_on_with_works();
    }
    if (done) return;
    wait_until(lock, [&] { return world().changes != changes; });
  }
}

void work_off(cudaStream_t stream) {
  enter_card();
  const Unseen unseen;
  Lock lock(world().mutex);
  for (;;) {
    wait_until(lock, [&] { return stream->closing || !stream->queue.empty(); });
    if (stream->queue.empty()) break;
    Item& item = stream->queue.front();
    for (const TicketPtr& ticket : item.after) wait_for(lock, ticket);
    acquire_unseen(&item.ticket->issued);
    const Device& device = world().devices[static_cast<std::size_t>(stream->device)];
    if (item.kind != NodeKind::copy) wait_until(lock, [&] { return !item.work || !device.held; });
    if (item.work) run(lock, stream->device, item.work);
    lock.unlock();
    item.work = nullptr;  // what it holds is gone before anybody learns that it is done
    lock.lock();
    release_unseen(&item.ticket->finished);
    item.ticket->done = true;
    item.ticket->time = std::chrono::steady_clock::now() + world().lag;
    stream->queue.pop_front();
    notify();
  }
  delete stream;
}

void start(cudaStream_t stream) {
  if (stream->started) return;
  stream->started = true;
  std::thread(work_off, stream).detach();
}

cudaStream_t make_stream(int device, bool blocking) {
  const auto stream = new CUstream_st;
  stream->device = device;
  stream->blocking = blocking;
  return stream;
}

/// Makes `work` a node behind the stream's last ones.
cudaError_t capture(CUstream_st& stream, Work work, NodeKind kind) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(work), std::move(stream.tail), kind, stream.priority});
  stream.tail = {static_cast<int>(capture.nodes.size()) - 1};
  return cudaSuccess;
}

/// Whether a stream that the default stream waits for is captured; its capture is then invalid.
bool is_captured(const Device& device) {
  bool captured = false;
  for (const cudaStream_t stream : device.streams)
    if (stream->blocking && stream->capture) captured = stream->capture->invalid = true;
  return captured;
}

}  // namespace

cudaStream_t resolve(cudaStream_t stream) {
  if (stream != nullptr && stream != cudaStreamLegacy) return stream;
  Device& device = world().devices[static_cast<std::size_t>(current_device())];
  if (device.legacy == nullptr) device.legacy = make_stream(current_device(), true);
  return device.legacy;
}

cudaError_t enqueue(cudaStream_t stream, Work work, NodeKind kind, std::vector<TicketPtr> after,
                    TicketPtr* ticket) {
  if (ticket != nullptr) ticket->reset();
  if (stream->capture) return capture(*stream, std::move(work), kind);
  if (kind == NodeKind::kernel) {
    ++world().totals.kernels;
    if (!open_ranges().empty()) ++world().kernels_by_ranges[open_ranges()];
  }
  Device& device = world().devices[static_cast<std::size_t>(stream->device)];
  if (stream == device.legacy) {
    if (is_captured(device)) return cudaErrorStreamCaptureImplicit;
    for (const cudaStream_t other : device.streams)
      if (other->blocking) after.push_back(other->last);
  } else if (stream->blocking && device.legacy != nullptr) {
    after.push_back(device.legacy->last);
  }
  std::erase(after, nullptr);
  stream->last = std::make_shared<Ticket>();
  release_unseen(&stream->last->issued);
  stream->queue.push_back({std::move(work), kind, std::move(after), stream->last});
  if (ticket != nullptr) *ticket = stream->last;
  start(stream);
  notify();
  return cudaSuccess;
}

cudaError_t check_wait(cudaStream_t stream) {
  if (stream->capture) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return is_forbidden() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

void wait_for(Lock& lock, const TicketPtr& ticket) {
  if (!ticket) return;
  wait_until(lock, [&] { return ticket->done; });
  acquire_unseen(&ticket->finished);
}

void wait_for_device(Lock& lock, int index) {
  const Device& device = world().devices[static_cast<std::size_t>(index)];
  std::vector<TicketPtr> last;
  for (const cudaStream_t stream : device.streams) last.push_back(stream->last);
  if (device.legacy != nullptr) last.push_back(device.legacy->last);
  for (const TicketPtr& ticket : last) wait_for(lock, ticket);
}

}  // namespace alpa::emulation

using namespace alpa::emulation;

namespace {

constexpr int kLeast = 0, kGreatest = -5;  // priorities of streams, as of NVIDIA's cards

cudaError_t fault_of(cudaStream_t stream) {
  return world().devices[static_cast<std::size_t>(stream->device)].fault;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return call([&](Lock&) {
    if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = make_stream(current_device(), flags != cudaStreamNonBlocking);
    world().devices[static_cast<std::size_t>(current_device())].streams.push_back(*stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  const cudaError_t error = cudaStreamCreateWithFlags(stream, flags);
  if (error == cudaSuccess) (*stream)->priority = std::clamp(priority, kGreatest, kLeast);
  return error;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = kLeast, *greatest = kGreatest;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return give_back([&](Lock&) {
    if (stream == nullptr || stream == cudaStreamLegacy) return cudaErrorInvalidResourceHandle;
    if (stream->capture) return cudaErrorStreamCaptureUnsupported;
    std::erase(world().devices[static_cast<std::size_t>(stream->device)].streams, stream);
    stream->closing = true;
    start(stream);
    notify();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call([&](Lock& lock) {
    const cudaStream_t stream = resolve(handle);
    if (const cudaError_t error = check_wait(stream)) return error;
    if (stream->last && !stream->last->done) return cudaErrorNotReady;
    wait_for(lock, stream->last);
    return fault_of(stream);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call([&](Lock& lock) {
    const cudaStream_t stream = resolve(handle);
    if (const cudaError_t error = check_wait(stream)) return error;
    wait_for(lock, stream->last);
    return fault_of(stream);
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([&](Lock& lock) {
    if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
    wait_for_device(lock, current_device());
    return world().devices[static_cast<std::size_t>(current_device())].fault;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call([&](Lock&) {
    return enqueue(resolve(stream), visible([=] {
                     leave_card();
                     function(data);
                     enter_card();
                   }),
                   NodeKind::other);
  });
}
}
