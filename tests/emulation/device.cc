// Devices and errors
#include <cstring>

#include "stream.h"
#include "world.h"

namespace alpa::emulation {
namespace {

thread_local int device_of_thread = 0;

bool exists(int device) { return device >= 0 && device < world().machine.devices; }

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
#define ALPA_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    ALPA_ERROR(cudaSuccess, "no error"),
    ALPA_ERROR(cudaErrorInvalidValue, "invalid argument"),
    ALPA_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ALPA_ERROR(cudaErrorInitializationError, "initialization error"),
    ALPA_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ALPA_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    ALPA_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction"),
    ALPA_ERROR(cudaErrorInsufficientDriver, "driver older than the runtime"),
    ALPA_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ALPA_ERROR(cudaErrorNoDevice, "no device"),
    ALPA_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ALPA_ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    ALPA_ERROR(cudaErrorPeerAccessUnsupported,
               "peer access is not supported between these devices"),
    ALPA_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ALPA_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ALPA_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    ALPA_ERROR(cudaErrorNotReady, "device not ready"),
    ALPA_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ALPA_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ALPA_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ALPA_ERROR(cudaErrorHostMemoryAlreadyRegistered, "memory is already registered"),
    ALPA_ERROR(cudaErrorHostMemoryNotRegistered, "memory is not registered"),
    ALPA_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ALPA_ERROR(cudaErrorNotSupported, "operation not supported"),
    ALPA_ERROR(cudaErrorStreamCaptureUnsupported,
               "operation not permitted when stream is capturing"),
    ALPA_ERROR(cudaErrorStreamCaptureInvalidated,
               "operation failed due to a previous error during capture"),
    ALPA_ERROR(cudaErrorStreamCaptureMerge, "operation would merge two captures"),
    ALPA_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not begun in this stream"),
    ALPA_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ALPA_ERROR(cudaErrorStreamCaptureIsolation, "dependency on work outside of the capture"),
    ALPA_ERROR(cudaErrorStreamCaptureImplicit,
               "operation would depend on a capturing blocking stream"),
    ALPA_ERROR(cudaErrorCapturedEvent, "operation not permitted on a captured event"),
    ALPA_ERROR(cudaErrorStreamCaptureWrongThread, "capture was begun by another thread"),
    ALPA_ERROR(cudaErrorUnknown, "unknown error")};
#undef ALPA_ERROR

const ErrorText& text_of(cudaError_t error) {
  for (const ErrorText& row : kErrors)
    if (row.error == error) return row;
  static constexpr ErrorText unknown = {cudaErrorUnknown, "unrecognized error code",
                                        "unrecognized error code"};
  return unknown;
}

cudaError_t describe(cudaDeviceProp* p, int device) {
  *p = {};
  std::strcpy(p->name, "alpa emulated device");
  p->uuid.bytes[0] = static_cast<char>(device + 1);
  p->totalGlobalMem = world().machine.memory_bytes;
  p->sharedMemPerBlock = 48 * 1024;
  p->sharedMemPerBlockOptin = 227 * 1024;
  p->sharedMemPerMultiprocessor = 228 * 1024;
  p->warpSize = 32, p->maxThreadsPerBlock = 1024, p->maxThreadsPerMultiProcessor = 2048;
  p->major = 9, p->minor = 0, p->multiProcessorCount = 132, p->l2CacheSize = 50 << 20;
  p->asyncEngineCount = 3, p->unifiedAddressing = 1, p->pciBusID = device + 1;
  return cudaSuccess;
}

cudaError_t attribute(int* value, cudaDeviceAttr attribute) {
  cudaDeviceProp p;
  describe(&p, 0);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrClockRate: *value = 1'980'000; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMemoryClockRate: *value = 2'619'000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 5120; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
    case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    default: return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace

int current_device() { return device_of_thread; }

}  // namespace alpa::emulation

using namespace alpa::emulation;

extern "C" {

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  *count = world().machine.devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return call([&](Lock&) {
    if (!exists(device)) return cudaErrorInvalidDevice;
    device_of_thread = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&](Lock&) {
    return exists(device) ? describe(properties, device) : cudaErrorInvalidDevice;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return call(
      [&](Lock&) { return exists(device) ? attribute(value, which) : cudaErrorInvalidDevice; });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr which, int from, int to) {
  return call([&](Lock&) {
    if (!exists(from) || !exists(to) || from == to) return cudaErrorInvalidDevice;
    *value = which == cudaDevP2PAttrPerformanceRank ? 0 : 1;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&](Lock&) {
    if (!exists(device) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int) {
  return call([&](Lock&) {
    return exists(peer) && peer != device_of_thread ? cudaSuccess : cudaErrorInvalidDevice;
  });
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call([&](Lock&) { return exists(peer) ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error() = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  const cudaError_t fault = world().devices[static_cast<std::size_t>(device_of_thread)].fault;
  return fault != cudaSuccess ? fault : last_error();
}
const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }
}
