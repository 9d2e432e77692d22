// src/cuda/discovery.cc — finds the machine's cards, driver and library versions
#include "discovery.h"

#include <fmt/format.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "choice_file.h"
#include "dnn_library.h"
#include "status.h"

namespace alpa::cuda {
namespace {

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& text) {
  const std::size_t size = std::min(text.size(), N - 1);
  std::copy_n(text.begin(), size, to);
  to[size] = '\0';
}

/// 13000 → "13.0".
std::string toolkit_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// 91301 → "9.13.1" with scale 10000 and 100.
std::string dotted(std::size_t number, std::size_t major, std::size_t minor) {
  return fmt::format("{}.{}.{}", number / major, number % major / minor, number % minor);
}

int runtime_number() {
  int number = 0;
  check(cudaRuntimeGetVersion(&number), "cudaRuntimeGetVersion");
  return number;
}

/// 0 without a driver.
int driver_number() {
  int number = 0;
  check(cudaDriverGetVersion(&number), "cudaDriverGetVersion");
  return number;
}

std::string cublas_version() {
  int parts[3];
  for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL})
    check(cublasGetProperty(part, &parts[part]), "cublasGetProperty");
  return fmt::format("{}.{}.{}", parts[0], parts[1], parts[2]);
}

std::string nccl_version() {
  int number = 0;
  check(ncclGetVersion(&number), "ncclGetVersion");
  return dotted(static_cast<std::size_t>(number), 10000, 100);
}

std::string nvrtc_version() {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  return fmt::format("{}.{}", major, minor);
}

std::int64_t attribute(cudaDeviceAttr attribute, std::int32_t device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

int peer_attribute(cudaDeviceP2PAttr attribute, std::int32_t from, std::int32_t to) {
  int value = 0;
  check(cudaDeviceGetP2PAttribute(&value, attribute, from, to), "cudaDeviceGetP2PAttribute");
  return value;
}

/// Throws Error with the reason why `cudaGetDeviceCount` gave `status`, or no device.
[[noreturn]] void fail_without_device(cudaError_t status) {
  const std::string runtime = toolkit_version(runtime_number());
  const int driver = driver_number();
  if (status == cudaErrorInsufficientDriver && driver == 0)
    fail("CUDA {} runtime, but no driver (cudaErrorInsufficientDriver)", runtime);
  if (status == cudaErrorInsufficientDriver)
    fail("CUDA {} runtime, but the driver only supports CUDA {} (cudaErrorInsufficientDriver)",
         runtime, toolkit_version(driver));
  if (status == cudaSuccess || status == cudaErrorNoDevice)
    fail("CUDA {} runtime and a driver for CUDA {}, but no device (cudaErrorNoDevice)", runtime,
         toolkit_version(driver));
  check(status, "cudaGetDeviceCount");
  bug("cudaGetDeviceCount: status {} passed", static_cast<int>(status));
}

/// "" if there is none.
std::string dnn_version() {
  try {
    return dnn_version_text(dnn().version());
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

CudaVersions versions() {
  CudaVersions versions{};
  const int driver = driver_number();
  copy_text(versions.runtime, toolkit_version(runtime_number()));
  if (driver != 0) copy_text(versions.driver, toolkit_version(driver));
  copy_text(versions.cublas, cublas_version());
  copy_text(versions.cublas_lt, dotted(cublasLtGetVersion(), 10000, 100));
  copy_text(versions.cudnn, dnn_version());
  copy_text(versions.nccl, nccl_version());
  copy_text(versions.nvrtc, nvrtc_version());
  return versions;
}

std::int32_t device_count() {
  int count = 0;  // left alone by a call that fails
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();  // clears the error, so that the next call does not report it
    fail_without_device(status);
  }
  return count;
}

std::string uuid(std::int32_t index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return to_text(&properties.uuid, sizeof properties.uuid);
}

CudaDevice device(std::int32_t index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  CudaDevice device{};
  copy_text(device.name, properties.name);
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.l2_bytes = properties.l2CacheSize;
  device.clock_hertz = attribute(cudaDevAttrClockRate, index) * 1000;
  // kHz, twice per clock, and bits.
  device.memory_bytes_per_second = 2 * attribute(cudaDevAttrMemoryClockRate, index) * 1000 *
                                   (attribute(cudaDevAttrGlobalMemoryBusWidth, index) / 8);
  check(cudaSetDevice(index), "cudaSetDevice");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  device.memory_bytes = static_cast<std::int64_t>(total);
  device.free_bytes = static_cast<std::int64_t>(free);
  return device;
}

CudaLink link(std::int32_t from, std::int32_t to) {
  return {peer_attribute(cudaDevP2PAttrAccessSupported, from, to),
          peer_attribute(cudaDevP2PAttrNativeAtomicSupported, from, to),
          peer_attribute(cudaDevP2PAttrPerformanceRank, from, to)};
}

}  // namespace alpa::cuda
