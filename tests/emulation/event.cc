// Events
#include "stream.h"

struct CUevent_st {
  int device = 0;
  bool timed = true;
  alpa::emulation::TicketPtr ticket;  ///< of the last record; null at first
};

using namespace alpa::emulation;

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return call([&](Lock&) {
    *event = new CUevent_st{current_device(), (flags & cudaEventDisableTiming) == 0, nullptr};
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

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call([&](Lock&) {
    if (event == nullptr || event->device != resolve(stream)->device) return cudaErrorInvalidResourceHandle;
    event->ticket = enqueue(resolve(stream), {});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  return call([&](Lock&) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->ticket) enqueue(resolve(stream), {}, {event->ticket});
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Lock& lock) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->ticket && !event->ticket->done) return cudaErrorNotReady;
    wait_for(lock, event->ticket);
    return world().devices[static_cast<std::size_t>(event->device)].fault;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&](Lock& lock) {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
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
