#pragma once
/// CUDA objects that are freed when they go out of scope. Made on the current device.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace alpa::cuda {

template <class T, auto free>
struct Free {
  void operator()(T* handle) const { free(handle); }
};
template <class T, auto free>
using Handle = std::unique_ptr<T, Free<T, free>>;
template <class T>
using Opaque = std::remove_pointer_t<T>;

using DeviceBlock = Handle<void, cudaFree>;
using PinnedBlock = Handle<void, cudaFreeHost>;
using StreamHandle = Handle<Opaque<cudaStream_t>, cudaStreamDestroy>;
using EventHandle = Handle<Opaque<cudaEvent_t>, cudaEventDestroy>;
using GraphExec = Handle<Opaque<cudaGraphExec_t>, cudaGraphExecDestroy>;

/// Throw Error. No bytes give null.
DeviceBlock allocate_device(std::int64_t bytes);
PinnedBlock allocate_pinned(std::int64_t bytes);
/// Pinned memory that kernels of every card can write. Whoever waits for them sees what they wrote.
PinnedBlock allocate_mapped(std::int64_t bytes);
/// The device address of memory from `allocate_mapped`.
std::byte* device_address(const PinnedBlock& mapped);
/// Priority of a stream: blocks of a higher one get free multiprocessors first.
enum class Priority { low, middle, high };
/// A stream that does not wait for the legacy default stream.
StreamHandle make_stream(Priority priority = Priority::middle);
/// An event for order alone, or one that keeps the time.
EventHandle make_event(bool timed = false);

/// Seconds between two timed events, the later of which is waited for.
double seconds_between(cudaEvent_t start, cudaEvent_t stop);

/// Makes later work on `stream` wait for the work queued so far on `before`, by recording `event`.
void order(cudaStream_t before, cudaEvent_t event, cudaStream_t stream);

}  // namespace alpa::cuda
