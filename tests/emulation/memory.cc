// Device and host memory, copies
#include <cstdlib>
#include <cstring>

#include "card_memory.h"
#include "stream.h"

namespace alpa::emulation {
namespace {

cudaError_t allocate(void** data, std::size_t bytes, MemoryKind kind) {
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  Device& device = world().devices[static_cast<std::size_t>(current_device())];
  if (kind == MemoryKind::device && bytes > world().machine.memory_bytes - device.used_bytes)
    return cudaErrorMemoryAllocation;
  const bool on_card = kind == MemoryKind::device;
  *data = on_card ? map_card_memory(bytes) : std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  if (!on_card) std::memset(*data, kPoison, bytes);
  world().memory[reinterpret_cast<std::uintptr_t>(*data)] = {bytes, kind, current_device()};
  if (on_card) device.used_bytes += bytes, ++device.allocations;
  return cudaSuccess;
}

cudaError_t deallocate(Lock& lock, void* data, bool on_device) {
  if (data == nullptr) return cudaSuccess;
  if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  const auto found = world().memory.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == world().memory.end() || found->second.kind == MemoryKind::registered ||
      (found->second.kind == MemoryKind::device) != on_device)
    return cudaErrorInvalidValue;
  const Allocation allocation = found->second;
  wait_for_device(lock, allocation.device);
  if (on_device)
    world().devices[static_cast<std::size_t>(allocation.device)].used_bytes -= allocation.bytes;
  world().memory.erase(reinterpret_cast<std::uintptr_t>(data));
  const Seen seen;
  on_device ? unmap_card_memory(data, allocation.bytes) : std::free(data);
  return cudaSuccess;
}

bool is_device(const Allocation* allocation) {
  return allocation != nullptr && allocation->kind == MemoryKind::device;
}

/// Whether the ends of a copy lie where `kind` says, as far as the emulation can know.
bool agrees(cudaMemcpyKind kind, const Allocation* to, const Allocation* from) {
  switch (kind) {
    case cudaMemcpyHostToHost: return !is_device(to) && !is_device(from);
    case cudaMemcpyHostToDevice: return is_device(to) && !is_device(from);
    case cudaMemcpyDeviceToHost: return !is_device(to) && is_device(from);
    case cudaMemcpyDeviceToDevice: return is_device(to) && is_device(from);
    default: return true;
  }
}

struct Copy {
  char* to;
  const char* from;
  std::size_t to_pitch, from_pitch, width, height;

  void operator()() const {
    for (std::size_t row = 0; row < height; ++row)
      std::memmove(to + row * to_pitch, from + row * from_pitch, width);
  }
  std::size_t to_bytes() const { return (height - 1) * to_pitch + width; }
  std::size_t from_bytes() const { return (height - 1) * from_pitch + width; }
};

/// What a pageable source holds now: the runtime copies it aside before the call returns.
Work staged(const Copy& copy) {
  const auto bytes = std::make_shared<std::vector<char>>(copy.width * copy.height);
  {
    const Seen seen;
    Copy{bytes->data(), copy.from, copy.width, copy.from_pitch, copy.width, copy.height}();
  }
  return visible([copy, bytes] {
    Copy{copy.to, bytes->data(), copy.to_pitch, copy.width, copy.width, copy.height}();
  });
}

cudaError_t queue_copy(Lock& lock, const Copy& copy, cudaMemcpyKind kind, cudaStream_t stream,
                       bool wait) {
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (copy.width > copy.to_pitch || copy.width > copy.from_pitch) return cudaErrorInvalidValue;
  const Allocation* const to = allocation_of(copy.to, copy.to_bytes());
  const Allocation* const from = allocation_of(copy.from, copy.from_bytes());
  if (!agrees(kind, to, from)) return cudaErrorInvalidValue;
  if (wait && is_forbidden()) return cudaErrorStreamCaptureUnsupported;
  const bool now = from == nullptr && !stream->capture;
  TicketPtr done;
  const cudaError_t error =
      enqueue(stream, now ? staged(copy) : visible(copy), NodeKind::copy, {}, &done);
  if (error != cudaSuccess || (!wait && to != nullptr)) return error;
  wait_for(lock, done);
  return world().devices[static_cast<std::size_t>(stream->device)].fault;
}

}  // namespace
}  // namespace alpa::emulation

using namespace alpa::emulation;

namespace {

Copy flat(void* to, const void* from, std::size_t bytes) {
  return {static_cast<char*>(to), static_cast<const char*>(from), bytes, bytes, bytes, 1};
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return call([&](Lock&) { return allocate(data, bytes, MemoryKind::device); });
}
cudaError_t cudaFree(void* data) {
  return give_back([&](Lock& lock) { return deallocate(lock, data, true); });
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned int) {
  return call([&](Lock&) { return allocate(data, bytes, MemoryKind::pinned); });
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  return call([&](Lock&) {
    const Allocation* const found = allocation_of(host, 1);
    if (flags != 0 || found == nullptr || is_device(found)) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}
cudaError_t cudaMallocHost(void** data, size_t bytes) { return cudaHostAlloc(data, bytes, 0); }
cudaError_t cudaFreeHost(void* data) {
  return give_back([&](Lock& lock) { return deallocate(lock, data, false); });
}

cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned int) {
  return call([&](Lock&) {
    if (data == nullptr || bytes == 0) return cudaErrorInvalidValue;
    if (is_forbidden()) return cudaErrorStreamCaptureUnsupported;
    if (allocation_of(data, 1) != nullptr) return cudaErrorHostMemoryAlreadyRegistered;
    world().memory[reinterpret_cast<std::uintptr_t>(data)] = {bytes, MemoryKind::registered,
                                                              current_device()};
    return cudaSuccess;
  });
}
cudaError_t cudaHostUnregister(void* data) {
  return call([&](Lock&) {
    const auto found = world().memory.find(reinterpret_cast<std::uintptr_t>(data));
    if (found == world().memory.end() || found->second.kind != MemoryKind::registered)
      return cudaErrorHostMemoryNotRegistered;
    world().memory.erase(found);
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&](Lock&) {
    *total = world().machine.memory_bytes;
    *free = *total - world().devices[static_cast<std::size_t>(current_device())].used_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  return call([&](Lock&) {
    const Allocation* const found = allocation_of(data, 1);
    void* const pointer = const_cast<void*>(data);
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, nullptr};
    if (found == nullptr) return cudaSuccess;
    *attributes = {is_device(found) ? cudaMemoryTypeDevice : cudaMemoryTypeHost, found->device,
                   pointer, is_device(found) ? nullptr : pointer};
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call([&](Lock& lock) {
    return queue_copy(lock, flat(to, from, bytes), kind, resolve(nullptr), true);
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&](Lock& lock) {
    return queue_copy(lock, flat(to, from, bytes), kind, resolve(stream), false);
  });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return call([&](Lock& lock) {
    return queue_copy(lock,
                      {static_cast<char*>(to), static_cast<const char*>(from), to_pitch, from_pitch,
                       width, height},
                      kind, resolve(nullptr), true);
  });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return call([&](Lock& lock) {
    return queue_copy(lock,
                      {static_cast<char*>(to), static_cast<const char*>(from), to_pitch, from_pitch,
                       width, height},
                      kind, resolve(stream), false);
  });
}

cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  const cudaError_t forbidden =
      call([](Lock&) { return is_forbidden() ? cudaErrorStreamCaptureUnsupported : cudaSuccess; });
  return forbidden != cudaSuccess ? forbidden : cudaMemsetAsync(data, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return call([&](Lock&) {
    if (bytes == 0) return cudaSuccess;
    if (!is_device(allocation_of(data, bytes))) return cudaErrorInvalidValue;
    return enqueue(resolve(stream), visible([=] { std::memset(data, value, bytes); }),
                   NodeKind::clear);
  });
}
}
