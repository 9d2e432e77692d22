#pragma once
/// CUDA's C++ interface: typed allocation and launching, and what device code uses.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "cuda_runtime_api.h"
#include "device_code.h"

namespace alpa::emulation {

/// Queues a kernel; `body` runs one thread of it. `kernel` tells it from others, and its blocks may
/// have `bound` threads.
cudaError_t launch(const void* kernel, unsigned bound, dim3 grid, dim3 block,
                   std::size_t shared_bytes, cudaStream_t stream, std::function<void()> body);

}  // namespace alpa::emulation

template <class T>
cudaError_t cudaMalloc(T** data, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(data), bytes);
}
template <class T>
cudaError_t cudaMallocHost(T** data, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(data), bytes);
}
template <class T>
cudaError_t cudaFuncSetAttribute(T* function, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(function), attribute, value);
}

// Every thread gets a copy of the arguments, which is nobody else's concern.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  alpa_emulation::check_parameters<Parameters...>();
  const auto* const code = reinterpret_cast<const void*>(kernel);
  return alpa::emulation::launch(
      code, alpa_emulation::bound_of(code), config->gridDim, config->blockDim,
      config->dynamicSmemBytes, config->stream,
      [ kernel, ... values = Parameters(arguments) ]()
          __attribute__((no_sanitize("thread"))) { kernel(values...); });
}
