// src/cuda/handles.cc — creates and frees CUDA objects
#include "handles.h"

#include <fmt/core.h>

#include "status.h"

namespace alpa::cuda {

DeviceBlock allocate_device(std::int64_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  check(cudaMalloc(&data, static_cast<std::size_t>(bytes)),
        fmt::format("cudaMalloc({} bytes)", bytes).c_str());
  return DeviceBlock(data);
}

PinnedBlock allocate_pinned(std::int64_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  check(cudaMallocHost(&data, static_cast<std::size_t>(bytes)),
        fmt::format("cudaMallocHost({} bytes)", bytes).c_str());
  return PinnedBlock(data);
}

PinnedBlock allocate_mapped(std::int64_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  check(cudaHostAlloc(&data, static_cast<std::size_t>(bytes),
                      cudaHostAllocMapped | cudaHostAllocPortable),
        fmt::format("cudaHostAlloc({} bytes)", bytes).c_str());
  return PinnedBlock(data);
}

std::byte* device_address(const PinnedBlock& mapped) {
  if (!mapped) return nullptr;
  void* address = nullptr;
  check(cudaHostGetDevicePointer(&address, mapped.get(), 0), "cudaHostGetDevicePointer");
  return static_cast<std::byte*>(address);
}

StreamHandle make_stream(Priority priority) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  const int number = priority == Priority::low    ? least
                     : priority == Priority::high ? greatest
                                                  : (least + greatest) / 2;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, number),
        "cudaStreamCreateWithPriority");
  return StreamHandle(stream);
}

EventHandle make_event(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  return EventHandle(event);
}

double seconds_between(cudaEvent_t start, cudaEvent_t stop) {
  check(cudaEventSynchronize(stop), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
  return milliseconds * 1e-3;
}

void order(cudaStream_t before, cudaEvent_t event, cudaStream_t stream) {
  check(cudaEventRecord(event, before), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

}  // namespace alpa::cuda
