// Events
#include <cuda_profiler_api.h>

#include <algorithm>

#include "stream.h"

struct CUevent_st {
  int device = 0;
  bool timed = true;
  alpa::emulation::TicketPtr ticket = nullptr;    ///< of the last record; null at first
  alpa::emulation::CapturePtr capture = nullptr;  ///< in which it was recorded last, if in one
  std::vector<int> nodes = {};                    ///< of that capture
};

using namespace alpa::emulation;

namespace {

cudaError_t record(CUevent_st& event, CUstream_st& stream) {
  event.capture.reset();
  if (!stream.capture) return enqueue(&stream, {}, NodeKind::other, {}, &event.ticket);
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  event.capture = stream.capture, event.nodes = stream.tail;
  return cudaSuccess;
}

/// `stream` takes part in the capture from now on, if it does not yet.
void join(CUstream_st& stream, const CapturePtr& capture) {
  if (stream.capture) return;
  stream.capture = capture;
  capture->streams.push_back(&stream);
}

cudaError_t wait(CUstream_st& stream, const CUevent_st& event) {
  if (stream.capture && stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!event.capture) {
    if (!stream.capture)
      return event.ticket ? enqueue(&stream, {}, NodeKind::other, {event.ticket}) : cudaSuccess;
    stream.capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (stream.capture && stream.capture != event.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (event.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (event.capture->origin->capture != event.capture)
    return cudaErrorCapturedEvent;  // the capture has ended
  join(stream, event.capture);
  for (const int node : event.nodes)
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end())
      stream.tail.push_back(node);
  return cudaSuccess;
}

/// The error of a call of the host that waits for `event` or asks for it, if captures forbid that.
cudaError_t check_wait(const CUevent_st& event) {
  if (event.capture) {
    event.capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
  return is_forbidden() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return call([&](Lock&) {
    *event = new CUevent_st{current_device(), (flags & cudaEventDisableTiming) == 0};
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&](Lock&) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](Lock&) {
    if (event == nullptr || event->device != resolve(stream)->device)
      return cudaErrorInvalidResourceHandle;
    return record(*event, *resolve(stream));
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return call([&](Lock&) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return wait(*resolve(stream), *event);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Lock& lock) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_wait(*event)) return error;
    if (event->ticket && !event->ticket->done) return cudaErrorNotReady;
    wait_for(lock, event->ticket);
    return world().devices[static_cast<std::size_t>(event->device)].fault;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](Lock& lock) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t error = check_wait(*event)) return error;
    wait_for(lock, event->ticket);
    return world().devices[static_cast<std::size_t>(event->device)].fault;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  return call([&](Lock&) {
    if (!start->timed || !stop->timed || !start->ticket || !stop->ticket)
      return cudaErrorInvalidResourceHandle;
    if (!start->ticket->done || !stop->ticket->done) return cudaErrorNotReady;
    const std::chrono::duration<float, std::milli> time = stop->ticket->time - start->ticket->time;
    *milliseconds = time.count();
    return cudaSuccess;
  });
}
}
